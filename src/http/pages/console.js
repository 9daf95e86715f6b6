import RFB from '../novnc/core/rfb.js';
import { byId } from './element.js';
import { strokesOf } from './keyboard.js';

const state = byId('state');
/** Waits before the tries to get a lost connection back, in milliseconds; after that a guest that is started again is looked for. */
const waits = [200, 1000, 2000, 4000, 8000, 15_000];
const lookAgainMs = 30_000;
/** How the api ends a stream that the page may have, and cannot have now: the reason says why. */
const unavailable = 4503;
const unavailableMs = 5_000;
/** No session is longer than this (docs/http.md, "Console"). */
const sessionMs = 12 * 3_600_000;
const keyPauseMs = 30;
const command = 'svc3 vm console NAME';
const keysyms = { ControlLeft: 0xffe3, AltLeft: 0xffe9, Tab: 0xff09, Escape: 0xff1b };

const opened = Date.now();
let rfb;
let tries = 0;
let timer;

/** @param stream - path of the WebSocket; with the ticket of a link the first time, by the cookie of the session after that */
function connect(stream, ticket) {
  clearTimeout(timer);
  byId('again').hidden = true;
  let connected = false;
  const address = `wss://${location.host}${stream}${ticket === undefined ? '' : `?ticket=${ticket}`}`;
  const socket = new WebSocket(address);
  let reason = '';
  socket.addEventListener('close', (closed) => {
    if (closed.code === unavailable) reason = closed.reason;
  });
  const screen = new RFB(byId('screen'), socket, { shared: true });
  rfb = screen;
  screen.scaleViewport = true;
  screen.addEventListener('connect', () => {
    connected = true;
    tries = 0;
    state.textContent = 'Connected';
    screen.focus();
  });
  screen.addEventListener('disconnect', () => {
    releaseKeys();
    if (!connected && ticket !== undefined)
      state.textContent = `This link does not open the console (any more). Ask for a new one: ${command}`;
    else lost(stream, connected, reason);
  });
  screen.addEventListener('clipboard', ({ detail }) => {
    byId('text').value = detail.text;
  });
}

/** @param reason - why the api cannot open the stream now; empty where it did not say */
function lost(stream, wasConnected, reason) {
  const again = () => {
    tries += 1;
    connect(stream);
  };
  byId('again').hidden = false;
  byId('again').onclick = again;
  if (Date.now() - opened > sessionMs) {
    state.textContent = `The session is over. Ask for a new link: ${command}`;
    return;
  }
  if (reason !== '') {
    state.textContent = `${reason}; the console comes back by itself`;
    timer = setTimeout(again, unavailableMs);
    return;
  }
  if (wasConnected) state.textContent = 'The connection was lost; connecting again…';
  else if (tries >= waits.length)
    state.textContent = `No connection: the VM does not run, or the session is over. Looking again every 30 s; for a new link: ${command}`;
  timer = setTimeout(again, waits[tries] ?? lookAgainMs);
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

const heldKeys = () => document.querySelectorAll('[data-hold]');

/** The guest forgets held keys with the connection. */
function releaseKeys() {
  for (const button of heldKeys()) button.ariaPressed = 'false';
}

function hold({ currentTarget: button }) {
  const isDown = button.ariaPressed !== 'true';
  button.ariaPressed = String(isDown);
  rfb.sendKey(keysyms[button.dataset.hold], button.dataset.hold, isDown);
  rfb.focus();
}

function press({ currentTarget: { dataset } }) {
  rfb.sendKey(keysyms[dataset.press], dataset.press);
  rfb.focus();
}

async function toggleFullScreen() {
  if (document.fullscreenElement === null) await document.documentElement.requestFullscreen();
  else await document.exitFullscreen();
  rfb.focus();
}

function listen() {
  byId('keys').addEventListener('click', () => rfb.sendCtrlAltDel());
  for (const button of heldKeys()) button.addEventListener('click', hold);
  for (const button of document.querySelectorAll('[data-press]')) button.addEventListener('click', press);
  byId('fullscreen').hidden = !document.fullscreenEnabled;
  byId('fullscreen').addEventListener('click', () => void toggleFullScreen());
  byId('text').addEventListener('change', ({ target }) => rfb.clipboardPasteFrom(target.value));
  byId('clipboard').addEventListener('submit', (submitted) => {
    submitted.preventDefault();
    void type(byId('text').value);
  });
}

/** A fragment that somebody cut or mistyped may have no text. */
function linkOf(fragment) {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return '';
  }
}

// The stream's path, with its ticket, is in the fragment, which a browser sends to nobody. The path stays for a reload.
const link =
  /^(\/api\/v1\/namespaces\/([\w.-]+)\/vms\/([\w.-]+)\/console\/stream)(?:\?ticket=([\w.~-]+))?$/.exec(
    linkOf(location.hash.slice(1)),
  );
if (link === null) {
  history.replaceState(null, '', location.pathname);
  state.textContent = `This link is not complete. Ask for a new one: ${command}`;
} else {
  const [, stream, namespace, vm, ticket] = link;
  history.replaceState(null, '', `${location.pathname}#${encodeURIComponent(stream)}`);
  byId('name').textContent = `${namespace}/${vm}`;
  document.title = `${vm} – svc3 console`;
  connect(stream, ticket);
  listen();
}
