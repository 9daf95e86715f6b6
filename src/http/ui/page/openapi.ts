import { useEffect, useState } from 'preact/hooks';
import { call } from './api.ts';
import { fieldsOf, type Field, type Schemas } from './schema.ts';

interface OpenApi {
  readonly components: { readonly schemas: Schemas };
}

let asked: Promise<Schemas> | undefined;

async function schemasOfServer(): Promise<Schemas> {
  const { body } = await call<OpenApi>('GET', '/api/v1/openapi.json');
  return body.components.schemas;
}

/** The fields of a named schema of the server's OpenAPI document; undefined until they are known. */
export function useFields(name: string): readonly Field[] | undefined {
  const [fields, setFields] = useState<readonly Field[]>();
  useEffect(() => {
    asked ??= schemasOfServer();
    asked
      .then((schemas) => setFields(fieldsOf(schemas[name] ?? {}, schemas)))
      // Asked for again by the next form.
      .catch(() => (asked = undefined));
  }, [name]);
  return fields;
}
