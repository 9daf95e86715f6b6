import { element } from './element.js';

/** What the OpenAPI document's schemas look like to a reader; `$ref`s lead to its named schemas. */
export function schemaViews(schemas) {
  const nameOf = (schema) => schema?.$ref?.split('/').at(-1);
  const resolved = (schema) => (schema?.$ref === undefined ? schema : schemas[nameOf(schema)]);

  function typeOf(schema) {
    if (schema === undefined) return '';
    if (schema.$ref) return nameOf(schema);
    if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
    if (schema.anyOf) return schema.anyOf.map(typeOf).join(' | ');
    if (schema.type === 'array') return `${typeOf(schema.items)}[]`;
    return schema.const === undefined ? (schema.type ?? 'any') : JSON.stringify(schema.const);
  }

  /** Named schemas below a field open in place; one that holds itself is only named. */
  function nested(schema, above) {
    const inner = schema?.type === 'array' ? schema.items : schema;
    const name = nameOf(inner);
    if (name === undefined || above.includes(name)) return '';
    const table = fieldTable(inner, above);
    return table === '' ? '' : element('details', {}, element('summary', { textContent: name }), table);
  }

  function fieldTable(schema, above = []) {
    const { properties = {}, required = [] } = resolved(schema) ?? {};
    const here = [...above, nameOf(schema)];
    const rows = Object.entries(properties).map(([name, field]) =>
      element(
        'tr',
        {},
        element('td', {}, element('code', { textContent: name })),
        element('td', { textContent: typeOf(field) + (required.includes(name) ? ', required' : '') }),
        element('td', {}, field.description ?? '', nested(field, here)),
      ),
    );
    return rows.length === 0 ? '' : element('table', {}, ...rows);
  }

  /** Each status that a call may be answered with, and the body that comes with it. */
  function responses(all = {}) {
    const rows = Object.entries(all).map(([code, { description = '', content }]) => {
      const schema = content?.['application/json']?.schema;
      return element(
        'tr',
        {},
        element('td', {}, element('code', { textContent: code })),
        element('td', {}, description, nested(schema, [])),
      );
    });
    return element(
      'details',
      { className: 'responses' },
      element('summary', { textContent: 'Responses' }),
      element('table', {}, ...rows),
    );
  }

  return { fieldTable, responses };
}
