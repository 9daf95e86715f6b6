/** Parts of undici by their file names: the whole package (fetch, WebSocket, caches) costs 9 MB and 90 ms more. */
declare module 'undici/lib/dispatcher/pool.js' {
  import type { Pool } from 'undici';

  const pool: typeof Pool;
  export default pool;
}

declare module 'undici/lib/core/connect.js' {
  import type { buildConnector } from 'undici';

  const build: typeof buildConnector;
  export default build;
}

declare module 'undici/lib/core/symbols.js' {
  const symbols: { readonly kHTTP2Session: symbol };
  export default symbols;
}

declare module 'undici/lib/api/api-request.js' {
  import type { Dispatcher } from 'undici';

  function request(this: Dispatcher, options: Dispatcher.RequestOptions): Promise<Dispatcher.ResponseData>;
  export default request;
}
