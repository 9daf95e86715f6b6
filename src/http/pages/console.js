import RFB from '../novnc/core/rfb.js';

const state = document.getElementById('state');
// The stream's path, with its ticket, is in the fragment, which a browser sends to nobody.
const path = decodeURIComponent(location.hash.slice(1));
history.replaceState(null, '', location.pathname);

if (!/^\/api\/v1\/namespaces\/[\w.-]+\/vms\/[\w.-]+\/console\/stream\?ticket=[\w.~-]+$/.test(path)) {
  state.textContent = 'This link is not complete. Ask for a new one: svc3 vm console NAME';
} else {
  const rfb = new RFB(document.getElementById('screen'), `wss://${location.host}${path}`, {});
  rfb.scaleViewport = true;
  rfb.addEventListener('connect', () => {
    state.textContent = 'Connected';
    rfb.focus();
  });
  rfb.addEventListener('disconnect', (closed) => {
    state.textContent = closed.detail.clean
      ? 'Closed'
      : 'The connection was lost. Ask for a new link: svc3 vm console NAME';
  });
  rfb.addEventListener('desktopname', (named) => {
    document.title = named.detail.name;
  });
  document.getElementById('keys').addEventListener('click', () => rfb.sendCtrlAltDel());
}
