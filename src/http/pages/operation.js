import { byId, element } from './element.js';
import { asCurl, confirmed, send } from './request.js';

/** Verbs of `exec` that throw away what a guest has, or cut it off. */
const cutting = new Set(['stop', 'restart', 'revert']);

function addressOf(path, parameters, values) {
  const query = new URLSearchParams();
  let address = path;
  for (const { name, in: place } of parameters) {
    const value = values.get(name)?.value ?? '';
    if (place === 'path') address = address.replace(`{${name}}`, encodeURIComponent(value));
    else if (place === 'query' && value !== '') query.set(name, value);
  }
  return query.size === 0 ? address : `${address}?${query}`;
}

/** Those that were given, by their names. */
function headersOf(parameters, values) {
  return parameters
    .filter(({ name, in: place }) => place === 'header' && values.get(name).value !== '')
    .map(({ name }) => [name, values.get(name).value]);
}

/** An input for each file of a form, by the name of its part; for the bytes themselves one without a name. */
function fileInputs(content = {}) {
  const { properties = {} } = content['multipart/form-data']?.schema ?? {};
  const parts = Object.keys(properties).filter((name) => properties[name].format === 'binary');
  const names = parts.length === 0 && content['application/octet-stream'] ? [''] : parts;
  return new Map(names.map((name) => [name, element('input', { type: 'file', required: true })]));
}

function isCutting({ method, body }) {
  if (method === 'DELETE') return true;
  try {
    return cutting.has(JSON.parse(body ?? '{}').command);
  } catch {
    return false;
  }
}

async function perform(call, output) {
  if (isCutting(call) && !(await confirmed(`${call.method} ${call.address}`))) {
    output.textContent = 'Not sent.';
    return;
  }
  output.textContent = 'Waiting…';
  const started = performance.now();
  const progress = (share) => {
    if (call.files.length > 0 && share < 1) output.textContent = `Sending: ${Math.floor(share * 100)} %`;
    else output.textContent = 'Waiting…';
  };
  try {
    const reply = await send(call, progress);
    let shown = reply.responseText;
    try {
      shown = JSON.stringify(JSON.parse(shown), null, 2);
    } catch {
      // Not JSON: shown as it is.
    }
    const warning = reply.getResponseHeader('warning');
    output.textContent = `${reply.status} ${reply.statusText} (${Math.round(performance.now() - started)} ms)${warning ? `\nWarning: ${warning}` : ''}\n\n${shown}`;
  } catch (error) {
    output.textContent = String(error);
  }
}

/** The namespace of the page, until another one is given here. */
function parameterInput({ name, in: place, required }) {
  const input = element('input', { required, autocomplete: 'off', spellcheck: false });
  if (name !== 'namespace' || place !== 'path') return input;
  const follow = () => {
    input.value = byId('namespace').value;
  };
  follow();
  byId('namespace').addEventListener('input', follow);
  return input;
}

/** One operation: its fields, what it is answered with, and a form that sends it. */
export function operationView({ path, method, operation, views }) {
  const { parameters = [], requestBody, responses } = operation;
  const values = new Map(parameters.map((parameter) => [parameter.name, parameterInput(parameter)]));
  const inputs = parameters.map(({ name, in: place }) =>
    element('label', {}, `${name} (${place})`, values.get(name)),
  );
  const json = requestBody?.content?.['application/json'];
  const example = json?.example === undefined ? '' : JSON.stringify(json.example, null, 2);
  const body = json === undefined ? undefined : element('textarea', { value: example, spellcheck: false });
  const files = fileInputs(requestBody?.content);
  const parts = requestBody?.content?.['multipart/form-data'];
  const output = element('pre', { textContent: '', ariaLive: 'polite' });
  const copy = element('button', { type: 'button', textContent: 'Copy as curl' });
  const form = element(
    'form',
    {},
    ...inputs,
    ...(body ? [element('label', {}, 'Body', body), views.fieldTable(json.schema)] : []),
    ...Array.from(files, ([name, input]) => element('label', {}, name || 'file', input)),
    ...(parts ? [views.fieldTable(parts.schema)] : []),
    element('div', { className: 'buttons' }, element('button', { textContent: 'Send' }), copy),
    output,
    views.responses(responses),
  );
  const call = () => ({
    method: method.toUpperCase(),
    address: addressOf(path, parameters, values),
    headers: headersOf(parameters, values),
    body: body?.value.trim() || undefined,
    files: Array.from(files, ([name, input]) => ({ name, file: input.files[0] })).filter(({ file }) => file),
  });
  form.addEventListener('submit', (submitted) => {
    submitted.preventDefault();
    void perform(call(), output);
  });
  copy.addEventListener('click', () => {
    const line = asCurl(call());
    // Shown as well: a browser may refuse its clipboard.
    output.textContent = line;
    navigator.clipboard?.writeText(line).catch(() => undefined);
  });
  return element(
    'details',
    { id: operation.operationId },
    element(
      'summary',
      {},
      element('span', { className: `method ${method}`, textContent: method.toUpperCase() }),
      element('code', { textContent: path }),
      operation.summary ?? '',
    ),
    form,
  );
}
