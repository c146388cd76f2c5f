"use strict";
// A link to a failure opens it; on paper everything is open.
function openTarget() {
  const found = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (found instanceof HTMLDetailsElement) {
    found.open = true;
    found.querySelector("summary").focus();
  }
}
addEventListener("hashchange", openTarget);
openTarget();
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((found) => { found.open = true; });
});
addEventListener("afterprint", () => closed.forEach((found) => { found.open = false; }));
