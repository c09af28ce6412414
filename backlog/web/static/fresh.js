// Keeps the page fresh: every 5 s, while it is visible, the contents of <main> become those
// of the same address. Focus, scroll, and what is being typed or marked stay.
'use strict';
(() => {
  const main = document.querySelector('main[data-live]'), hold = document.getElementById('hold');
  if (!main) return;
  const again = document.getElementById('again'), said = document.getElementById('said');
  let held = !!document.querySelector('meta[http-equiv=refresh]'), spoke = Date.now(), last = main.dataset.said, busy = false;

  const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.dataset || {}).key === (b.dataset || {}).key;

  function morph(a, b) {
    if (a.nodeType !== 1) {
      if (a.data !== b.data) a.data = b.data;
      return;
    }
    for (const x of [...a.attributes]) if (!b.hasAttribute(x.name) && x.name !== 'open') a.removeAttribute(x.name);
    for (const x of b.attributes) if (a.getAttribute(x.name) !== x.value) a.setAttribute(x.name, x.value);
    let at = a.firstChild;
    for (const x of [...b.childNodes]) {
      let found = at;
      while (found && !same(found, x)) found = found.nextSibling;
      if (!found) {
        a.insertBefore(document.importNode(x, true), at);
        continue;
      }
      while (at !== found) {
        const gone = at;
        at = at.nextSibling;
        gone.remove();
      }
      morph(at, x);
      at = at.nextSibling;
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  }

  function occupied() {
    const e = document.activeElement, s = getSelection();
    return main.contains(e) && e.matches('input,select,textarea') || s && !s.isCollapsed && main.contains(s.anchorNode);
  }

  async function fresh() {
    if (held || busy || document.hidden || occupied()) return;
    busy = true;
    try {
      const answer = await fetch(location.href, {headers: {Accept: 'text/html'}, signal: AbortSignal.timeout(10000)});
      if (answer.redirected) return location.reload();
      if (!answer.ok) throw answer.status;
      const next = new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector('main');
      if (held || occupied()) return;
      morph(main, next);
      document.body.classList.remove('stale');
      if (last !== main.dataset.said && Date.now() - spoke >= 30000) {
        said.textContent = last = main.dataset.said;
        spoke = Date.now();
      }
    } catch {
      document.body.classList.add('stale');
    } finally {
      busy = false;
    }
  }

  hold.hidden = false;
  again.hidden = true;
  const show = () => { hold.textContent = held ? 'Resume updates' : 'Pause updates'; };
  hold.addEventListener('click', () => { held = !held; show(); fresh(); });
  show();
  setInterval(fresh, 5000);
})();
