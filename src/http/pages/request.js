import { byId } from './element.js';

const quoted = (text) => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** A call as a command line. The token is not in it, but where a shell has it: `TOKEN=$(svc3 user get-token)`. */
export function asCurl({ method, address, body, file }) {
  const words = ['curl', '-X', method, '-H', '"Authorization: Bearer $TOKEN"'];
  if (file !== undefined) words.push('-F', quoted(`file=@${file.name}`));
  else if (body !== undefined) words.push('-H', quoted('content-type: application/json'), '-d', quoted(body));
  return [...words, quoted(new URL(address, location.href).href)].join(' ');
}

/** Sends a call with the token of the page; `onProgress` hears which share of a file has been sent. */
export function send({ method, address, body, file }, onProgress) {
  const request = new XMLHttpRequest();
  request.open(method, address);
  request.setRequestHeader('accept', 'application/json');
  const token = byId('token').value.trim();
  if (token !== '') request.setRequestHeader('authorization', `Bearer ${token}`);
  if (body !== undefined) request.setRequestHeader('content-type', 'application/json');
  request.upload.addEventListener('progress', ({ loaded, total }) => onProgress(loaded / total));
  const answered = new Promise((resolve, reject) => {
    request.addEventListener('load', () => resolve(request));
    request.addEventListener('error', () => reject(new Error('no answer: the connection failed')));
  });
  const form = new FormData();
  if (file !== undefined) form.set('file', file);
  request.send(file === undefined ? body : form);
  return answered;
}

/** Asks before what cannot be taken back is sent. */
export function confirmed(what) {
  const dialog = byId('confirm');
  byId('confirm-what').textContent = what;
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}
