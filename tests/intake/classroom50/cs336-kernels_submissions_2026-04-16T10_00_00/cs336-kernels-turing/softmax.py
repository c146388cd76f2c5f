# alan
