import { byId } from './element.js';

const quoted = (text) => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** A call as a command line. The token is not in it, but where a shell has it: `TOKEN=$(svc3 user get-token)`. */
export function asCurl({ method, address, headers, body, files }) {
  const words = ['curl', '-X', method, '-H', '"Authorization: Bearer $TOKEN"'];
  for (const [name, value] of headers) words.push('-H', quoted(`${name}: ${value}`));
  for (const { name, file } of files)
    words.push(...(name === '' ? ['-T', quoted(file.name)] : ['-F', quoted(`${name}=@${file.name}`)]));
  if (body !== undefined) words.push('-H', quoted('content-type: application/json'), '-d', quoted(body));
  return [...words, quoted(new URL(address, location.href).href)].join(' ');
}

/** Sends a call with the token of the page; `onProgress` hears which share of a file has been sent. */
export function send({ method, address, headers, body, files }, onProgress) {
  const request = new XMLHttpRequest();
  request.open(method, address);
  request.setRequestHeader('accept', 'application/json');
  const token = byId('token').value.trim();
  if (token !== '') request.setRequestHeader('authorization', `Bearer ${token}`);
  for (const [name, value] of headers) request.setRequestHeader(name, value);
  if (body !== undefined) request.setRequestHeader('content-type', 'application/json');
  request.upload.addEventListener('progress', ({ loaded, total }) => onProgress(loaded / total));
  const answered = new Promise((resolve, reject) => {
    request.addEventListener('load', () => resolve(request));
    request.addEventListener('error', () => reject(new Error('no answer: the connection failed')));
  });
  request.send(files.length === 0 ? body : contentOf(files));
  return answered;
}

/** The bytes of a file that is sent as it is, which has no name, else a form. */
function contentOf(files) {
  const [{ name, file }] = files;
  // Not with the type of the file: what is sent here is bytes, whatever they are.
  if (name === '') return file.slice(0, file.size, 'application/octet-stream');
  const form = new FormData();
  for (const part of files) form.set(part.name, part.file);
  return form;
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
