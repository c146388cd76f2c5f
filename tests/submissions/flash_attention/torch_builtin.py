import math

import torch


def flash_attention(q, k, v, causal=False, bias=None, return_lse=False):
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal and bias is None)
    if not return_lse:
        return o
    s = q.float() @ k.float().mT / math.sqrt(q.shape[3])
    return o, torch.logsumexp(s if bias is None else s + bias, -1)
