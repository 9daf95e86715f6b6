import { byId, element } from './element.js';
import { operationView } from './operation.js';
import { schemaViews } from './schema.js';

const openApi = await (await fetch('/api/v1/openapi.json')).json();
byId('version').textContent = openApi.info.version;
for (const answer of ['yes', 'no'])
  byId(`confirm-${answer}`).addEventListener('click', () => byId('confirm').close(answer));
const views = schemaViews(openApi.components.schemas);
const groups = new Map(
  openApi.tags.map(({ name }) => [name, element('section', {}, element('h2', { textContent: name }))]),
);
for (const [path, methods] of Object.entries(openApi.paths))
  for (const [method, operation] of Object.entries(methods))
    groups.get(operation.tags[0]).append(operationView({ path, method, operation, views }));
byId('operations').replaceChildren(...groups.values());
