const byId = (id) => document.getElementById(id);

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function typeOf(schema) {
  if (schema === undefined) return '';
  if (schema.$ref) return schema.$ref.split('/').at(-1);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(' | ');
  if (schema.type === 'array') return `${typeOf(schema.items)}[]`;
  return schema.const === undefined ? (schema.type ?? 'any') : JSON.stringify(schema.const);
}

function fieldTable(schema) {
  const rows = Object.entries(schema?.properties ?? {}).map(([name, field]) =>
    element(
      'tr',
      {},
      element('td', {}, element('code', { textContent: name })),
      element('td', { textContent: typeOf(field) + (schema.required?.includes(name) ? ', required' : '') }),
      element('td', { textContent: field.description ?? '' }),
    ),
  );
  return rows.length === 0 ? '' : element('table', {}, ...rows);
}

function addressOf(path, parameters, values) {
  const query = new URLSearchParams();
  let address = path;
  for (const { name, in: place } of parameters) {
    const value = values.get(name)?.value ?? '';
    if (place === 'path') address = address.replace(`{${name}}`, encodeURIComponent(value));
    else if (value !== '') query.set(name, value);
  }
  return query.size === 0 ? address : `${address}?${query}`;
}

async function call(method, address, body, output) {
  output.textContent = 'Waiting…';
  const token = byId('token').value.trim();
  const headers = { accept: 'application/json' };
  if (token !== '') headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers['content-type'] = 'application/json';
  const started = performance.now();
  try {
    const reply = await fetch(address, { method, headers, ...(body === undefined ? {} : { body }) });
    const text = await reply.text();
    let shown = text;
    try {
      shown = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // Not JSON: shown as it is.
    }
    const warning = reply.headers.get('warning');
    output.textContent = `${reply.status} ${reply.statusText} (${Math.round(performance.now() - started)} ms)${warning ? `\nWarning: ${warning}` : ''}\n\n${shown}`;
  } catch (error) {
    output.textContent = String(error);
  }
}

function operationView(path, method, operation) {
  const values = new Map();
  const inputs = (operation.parameters ?? []).map((parameter) => {
    const input = element('input', { value: parameter.name === 'namespace' ? byId('namespace').value : '' });
    values.set(parameter.name, input);
    return element('label', {}, `${parameter.name} (${parameter.in})`, input);
  });
  const json = operation.requestBody?.content?.['application/json'];
  const body =
    json === undefined
      ? undefined
      : element('textarea', {
          value: json.example === undefined ? '' : JSON.stringify(json.example, null, 2),
        });
  const output = element('pre', { textContent: '' });
  const form = element(
    'form',
    {},
    ...inputs,
    ...(body ? [element('label', {}, 'Body', body), fieldTable(json.schema)] : []),
    element('button', { textContent: 'Send' }),
    output,
  );
  form.addEventListener('submit', (submitted) => {
    submitted.preventDefault();
    const text = body?.value.trim();
    void call(
      method.toUpperCase(),
      addressOf(path, operation.parameters ?? [], values),
      text === undefined || text === '' ? undefined : text,
      output,
    );
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

const openApi = await (await fetch('/api/v1/openapi.json')).json();
byId('version').textContent = openApi.info.version;
const groups = new Map(
  openApi.tags.map(({ name }) => [name, element('section', {}, element('h2', { textContent: name }))]),
);
for (const [path, methods] of Object.entries(openApi.paths)) {
  for (const [method, operation] of Object.entries(methods))
    groups.get(operation.tags[0]).append(operationView(path, method, operation));
}
byId('operations').replaceChildren(...groups.values());
