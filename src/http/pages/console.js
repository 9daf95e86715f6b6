import RFB from '../novnc/core/rfb.js';
import { strokesOf } from './keyboard.js';

const byId = (id) => document.getElementById(id);
const state = byId('state');
/** Waits before the tries to get a lost connection back, in milliseconds. */
const waits = [200, 1000, 2000, 4000, 8000, 15_000, 30_000];
const keyPauseMs = 30;

let rfb;
let tries = 0;
let timer;

function connect(address) {
  clearTimeout(timer);
  byId('again').hidden = true;
  let connected = false;
  const screen = new RFB(byId('screen'), address, { shared: true });
  rfb = screen;
  screen.scaleViewport = true;
  screen.addEventListener('connect', () => {
    connected = true;
    tries = 0;
    state.textContent = 'Connected';
    screen.focus();
  });
  screen.addEventListener('disconnect', ({ detail }) => {
    // The first connection is made with the ticket in the link; its right to come again is a cookie.
    if (!connected && tries === 0) {
      state.textContent =
        'This link does not open the console (any more). Ask for a new one: svc3 vm console NAME';
      return;
    }
    lost(detail.clean, address.split('?')[0]);
  });
  screen.addEventListener('desktopname', ({ detail }) => {
    document.title = detail.name;
  });
  screen.addEventListener('clipboard', ({ detail }) => {
    byId('text').value = detail.text;
  });
}

function lost(clean, address) {
  const again = () => {
    tries += 1;
    state.textContent = 'Connecting again…';
    connect(address);
  };
  byId('again').hidden = false;
  byId('again').onclick = again;
  const wait = waits[tries];
  if (wait === undefined) {
    state.textContent = 'The connection was lost. Ask for a new link: svc3 vm console NAME';
    return;
  }
  state.textContent = clean ? 'Closed; connecting again…' : 'The connection was lost; connecting again…';
  timer = setTimeout(again, wait);
}

async function type(text) {
  const { strokes, unknown } = strokesOf(text);
  for (const { keysym, code, shift } of strokes) {
    if (shift) rfb.sendKey(0xffe1, 'ShiftLeft', true);
    rfb.sendKey(keysym, code);
    if (shift) rfb.sendKey(0xffe1, 'ShiftLeft', false);
    await new Promise((resolve) => setTimeout(resolve, keyPauseMs));
  }
  if (unknown > 0) state.textContent = `${unknown} characters are not on a US keyboard and were left out`;
  rfb.focus();
}

// The stream's path, with its ticket, is in the fragment, which a browser sends to nobody.
const path = decodeURIComponent(location.hash.slice(1));
history.replaceState(null, '', location.pathname);

if (!/^\/api\/v1\/namespaces\/[\w.-]+\/vms\/[\w.-]+\/console\/stream\?ticket=[\w.~-]+$/.test(path)) {
  state.textContent = 'This link is not complete. Ask for a new one: svc3 vm console NAME';
} else {
  connect(`wss://${location.host}${path}`);
  byId('keys').addEventListener('click', () => rfb.sendCtrlAltDel());
  byId('text').addEventListener('change', ({ target }) => rfb.clipboardPasteFrom(target.value));
  byId('clipboard').addEventListener('submit', (submitted) => {
    submitted.preventDefault();
    void type(byId('text').value);
  });
}
