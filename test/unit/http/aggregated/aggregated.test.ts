import type { IncomingMessage } from 'node:http';
import { describe, expect, test } from 'vitest';
import { resources, root } from '../../../../src/http/aggregated/discovery.ts';
import { openApiV2Of, openApiV3Of } from '../../../../src/http/aggregated/documents.ts';
import { remoteUser, requestHeadersOf } from '../../../../src/http/aggregated/requestheader.ts';
import { aggregatedRoutes } from '../../../../src/http/aggregated/routes.ts';
import { surfacesPage } from '../../../../src/http/aggregated/surfaces.ts';
import { routes } from '../../../../src/http/routes/table.ts';
import { nodeTable, remoteObject, remoteTable, wantsTable } from '../../../../src/http/aggregated/table.ts';
import { nodeItem, noUsage } from '../../../../src/wire/node.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

describe('discovery', () => {
  test('names exactly the resources that have a path', () => {
    const served = new Set(
      aggregatedRoutes.flatMap(({ path }) => {
        if (!path.startsWith(`${root}/`)) return [];
        // As kube-apiserver reads paths: [namespaces/NAMESPACE/]resource[/name[/subresource[/…]]].
        const [resource, , subresource] = path
          .slice(root.length + 1)
          .replace('namespaces/{namespace}/', '')
          .split('/');
        return [subresource === undefined ? resource : `${resource}/${subresource}`];
      }),
    );
    expect(served).toEqual(new Set(resources.map(({ name }) => name)));
  });

  test('offers nothing that garbage collection or the end of a namespace would use', () => {
    // Both leave subresources alone.
    const whole = resources.filter(({ name }) => !name.includes('/'));
    const verbs = whole.flatMap((resource) => resource.verbs);
    for (const verb of ['watch', 'delete', 'deletecollection', 'update', 'patch'])
      expect(verbs).not.toContain(verb);
  });

  test('needs nobody: every path of it is open', () => {
    for (const { path, permission } of aggregatedRoutes)
      if (!path.includes('{') && !path.endsWith('/nodes'))
        expect([path, permission.kind]).toEqual([path, 'open']);
    expect(aggregatedRoutes.map(({ path }) => path)).toContain(`/openapi/v3${root}`);
  });
});

describe('the page of surfaces', () => {
  const rows = surfacesPage(routes)
    .split('\n')
    .filter((line) => /^\| [A-Z]+ /.test(line))
    .map((line) => line.split('|').map((cell) => cell.trim()));

  test('has every row of /api/v1, served here or with the reason why not', () => {
    expect(rows.map(([, row]) => row)).toEqual(routes.map(({ method, path }) => `${method} \`${path}\``));
    for (const [, , here, , why] of rows)
      expect([here === '', why !== '']).toEqual([why !== '', here === '']);
  });

  test('names paths that are served', () => {
    const paths = new Set(aggregatedRoutes.map(({ path }) => `\`${path}\``));
    const named = rows.flatMap(([, , here = '']) => (here === '' ? [] : [here]));
    expect(named.length).toBeGreaterThan(5);
    for (const path of named) expect(paths).toContain(path);
  });

  test('is not made where a row is missing', () => {
    const [first] = routes;
    expect(() => surfacesPage([{ ...first!, id: 'somethingNew' }])).toThrow('somethingNew is missing');
  });
});

describe('a table', () => {
  test.each([
    ['application/json;as=Table;v=v1;g=meta.k8s.io,application/json', true],
    ['application/json,application/json;as=Table;v=v1;g=meta.k8s.io', false],
    ['application/json', false],
    ['application/json;as=PartialObjectMetadataList;g=meta.k8s.io', false],
    [undefined, false],
  ])('is wanted by Accept %s: %s', (accept, wanted) => {
    expect(wantsTable(accept)).toBe(wanted);
  });

  test('of what registries hold has a cell for every column, also where little is known', () => {
    const object = remoteObject({ name: 'r.example.com/a' }, 'RemoteImage', 'team');
    const { columnDefinitions, rows } = remoteTable([object], undefined) as {
      columnDefinitions: unknown[];
      rows: { cells: unknown[]; object: { metadata: object } }[];
    };
    expect(rows.map(({ cells }) => cells)).toEqual([['r.example.com/a', '', '']]);
    expect(columnDefinitions).toHaveLength(3);
    expect(rows[0]?.object.metadata).toEqual({ name: 'r.example.com/a', namespace: 'team' });
  });

  test('has a cell for every column', () => {
    const node = nodeItem({ metadata: storedMeta({ name: 'n1' }) }, 'team', noUsage);
    const { columnDefinitions, rows } = nodeTable([node], undefined) as {
      columnDefinitions: unknown[];
      rows: { cells: unknown[]; object: { metadata: object } }[];
    };
    expect(rows[0]?.cells).toHaveLength(columnDefinitions.length);
    expect(rows[0]?.object.metadata).toEqual({ name: 'n1', namespace: 'team' });
  });

  const partial = { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1' };
  const metadata = { name: 'n1', namespace: 'team' };
  test.each([
    [undefined, { ...partial, metadata }],
    ['Metadata', { ...partial, metadata }],
    ['Object', { kind: 'Node', metadata, availableCpu: 0 }],
    ['None', undefined],
  ] as const)('holds of an object what includeObject %s says', (include, held) => {
    const node = nodeItem({ metadata: storedMeta({ name: 'n1' }) }, 'team', noUsage);
    const { rows } = nodeTable([node], include) as { rows: { object?: object }[] };
    if (held === undefined) expect(rows[0]).not.toHaveProperty('object');
    else expect(rows[0]?.object).toMatchObject(held);
    const remote = remoteObject({ name: 'r.example.com/a', kind: 'image' }, 'RemoteImage', 'team');
    const { rows: others } = remoteTable([remote], include) as { rows: { object?: object }[] };
    if (include === 'Object') expect(others[0]?.object).toEqual(remote);
    else expect(others[0]?.object === undefined).toBe(include === 'None');
  });
});

test('the OpenAPI 2.0 document has the headers of an upload, and that it is bytes', () => {
  const { paths } = openApiV2Of(aggregatedRoutes) as {
    paths: Record<string, Record<string, { consumes: string[]; parameters: object[] }>>;
  };
  const upload = paths[`${root}/namespaces/{namespace}/images/{image}/upload/{upload}`];
  expect(upload?.['patch']?.consumes).toEqual(['application/octet-stream']);
  expect(upload?.['patch']?.parameters).toContainEqual({
    name: 'Upload-Offset',
    in: 'header',
    required: true,
    type: 'integer',
    description: 'Bytes of the file in front of those that are sent.',
  });
});

describe('who calls through kube-apiserver', () => {
  const data = {
    'requestheader-client-ca-file': 'CA',
    'requestheader-allowed-names': '["front-proxy-client"]',
    'requestheader-username-headers': '["X-Remote-User"]',
  };
  const headers = requestHeadersOf({ metadata: storedMeta({ name: 'x' }), data });

  function request(
    given: readonly (readonly [string, string])[],
    { authorized = true, name = 'front-proxy-client' }: { authorized?: boolean; name?: string } = {},
  ): IncomingMessage {
    const socket = { authorized, getPeerCertificate: () => ({ subject: { CN: name } }) };
    return { rawHeaders: given.flat(), socket } as unknown as IncomingMessage;
  }
  const user = [['X-Remote-User', 'jane']] as const;
  /** What Node says of the certificate of a TLS session that was resumed without one, and of one that is over. */
  const without = (certificate: object | null): IncomingMessage =>
    ({
      rawHeaders: user.flat(),
      socket: { authorized: true, getPeerCertificate: () => certificate },
    }) as unknown as IncomingMessage;

  test('is what its headers say, several of one name being several', () => {
    const given = [
      ['X-Remote-User', 'jane'],
      ['X-Remote-Uid', 'u1'],
      ['X-Remote-Group', 'a'],
      ['x-remote-group', 'b'],
      ['X-Remote-Extra-Scopes', 'one'],
      ['X-Remote-Extra-Scopes', 'two'],
      ['X-Remote-Extra-Example.com%2Fteam', 't'],
    ] as const;
    expect(remoteUser(request(given), headers)).toEqual({
      username: 'jane',
      uid: 'u1',
      groups: ['a', 'b'],
      extra: { scopes: ['one', 'two'], 'example.com/team': ['t'] },
    });
  });

  test('may have names of any language, which kube-apiserver sends in UTF-8', () => {
    const sent = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');
    const given = [
      ['X-Remote-User', sent('oidc:jürgen')],
      ['X-Remote-Group', sent('운영')],
      ['X-Remote-Extra-Team', sent('Köln')],
    ] as const;
    expect(remoteUser(request(given), headers)).toEqual({
      username: 'oidc:jürgen',
      groups: ['운영'],
      extra: { team: ['Köln'] },
    });
  });

  test('may have a field with any name', () => {
    const given = [...user, ['X-Remote-Extra-__proto__', 'x'], ['X-Remote-Extra-%zz', 'y']] as const;
    expect(Object.entries(remoteUser(request(given), headers).extra ?? {})).toEqual([
      ['__proto__', ['x']],
      ['%zz', ['y']],
    ]);
  });

  test.each([
    ['a certificate of another CA', request(user, { authorized: false })],
    ['a certificate of another name', request(user, { name: 'admin' })],
    ['a certificate whose name begins with the right one', request(user, { name: 'front-proxy-client-2' })],
    ['a resumed session that never had a certificate', without({})],
    ['a connection that is gone', without(null)],
    ['no user name', request([['X-Remote-Group', 'system:masters']])],
    ['an empty user name', request([['X-Remote-User', '']])],
  ])('is nobody with %s', (_, given) => {
    expect(() => remoteUser(given, headers)).toThrow(/^Unauthorized/);
  });

  test('is nobody where the cluster has no aggregation layer', () => {
    expect(requestHeadersOf(undefined)).toBeUndefined();
    expect(requestHeadersOf({ metadata: storedMeta({ name: 'x' }), data: {} })).toBeUndefined();
    expect(() => remoteUser(request(user), undefined)).toThrow(/^Unauthorized/);
  });
});

describe('the OpenAPI documents', () => {
  const described = aggregatedRoutes.filter(({ path }) => path.startsWith(root) && path !== root);
  test.each([
    ['2.0', openApiV2Of(described), 'definitions'],
    ['3.0', openApiV3Of(described), 'components'],
  ] as const)('%s has every path, and the kind by which kubectl explains it', (_, document, place) => {
    expect(new Set(Object.keys(document['paths'] as object))).toEqual(
      new Set(described.map(({ path }) => path)),
    );
    expect(JSON.stringify(document[place])).toContain(
      '"x-kubernetes-group-version-kind":[{"group":"api.svc3.dev","version":"v1","kind":"Node"}]',
    );
  });

  test('2.0 has nothing that it cannot have', () => {
    expect(JSON.stringify(openApiV2Of(described))).not.toMatch(/"(anyOf|oneOf|const|nullable)":/);
  });
});
