import { useEffect, useState } from 'preact/hooks';
import { call, messageOf } from './api.ts';
import { fieldsOf, type Field, type Schemas } from './schema.ts';

interface OpenApi {
  readonly components: { readonly schemas: Schemas };
}

let asked: Promise<Schemas> | undefined;

async function schemasOfServer(): Promise<Schemas> {
  const { body } = await call<OpenApi>('GET', '/api/v1/openapi.json');
  return body.components.schemas;
}

export interface Fields {
  /** Undefined until they are known. */
  readonly fields?: readonly Field[];
  /** Why they are not. */
  readonly problem?: string;
}

/** The fields of a named schema of the server's OpenAPI document. */
export function useFields(name: string): Fields {
  const [fields, setFields] = useState<Fields>({});
  useEffect(() => {
    asked ??= schemasOfServer();
    asked
      .then((schemas) => setFields({ fields: fieldsOf(schemas[name] ?? {}, schemas) }))
      // Asked for again by the next form.
      .catch((error: unknown) => {
        asked = undefined;
        setFields({ problem: messageOf(error) });
      });
  }, [name]);
  return fields;
}
