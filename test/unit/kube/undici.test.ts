import * as undici from 'undici';
import requestOf from 'undici/lib/api/api-request.js';
import connectorOf from 'undici/lib/core/connect.js';
import symbols from 'undici/lib/core/symbols.js';
import Pool from 'undici/lib/dispatcher/pool.js';
import { expect, test } from 'vitest';

// src/kube/endpoint.ts takes them from their files, without the rest of the package, which would cost the operator memory: a version of undici that
// moves them, or has others under its public names, has to be seen here.
test('what the client takes of undici by path is what undici gives by name', () => {
  expect(Pool).toBe(undici.Pool);
  expect(connectorOf).toBe(undici.buildConnector);
  expect(requestOf).toBe(undici.Pool.prototype.request);
  expect(symbols.kHTTP2Session).toBeTypeOf('symbol');
});
