import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { type Rendered, allOn, helmTemplate, rendered } from './helm.ts';

/** The spec of an object, untyped: the kinds are of many groups. */
function specOf(objects: readonly Rendered[], kind: string, name: string): Record<string, unknown> {
  const found = objects.find((object) => object.kind === kind && object.metadata.name === name);
  if (found === undefined) throw new Error(`the chart has no ${kind} ${name}`);
  return found.spec as unknown as Record<string, unknown>;
}

function podOf(objects: readonly Rendered[], kind: string, name: string) {
  const { template } = specOf(objects, kind, name) as unknown as {
    template: { metadata: { labels: Record<string, string> }; spec: Record<string, unknown> };
  };
  return template;
}

const json = (path: string, value: unknown): string => `--set-json=${path}=${JSON.stringify(value)}`;

describe('scheduling', () => {
  const workloads = [
    ['operator', 'Deployment', 'svc3-operator'],
    ['api', 'Deployment', 'svc3-api'],
    ['nodeAgent', 'DaemonSet', 'svc3-node-agent'],
  ] as const;

  test.each(workloads)('an affinity of %s is the one that its pods have', async (part, kind, name) => {
    const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: {} } };
    const objects = await rendered(json(`${part}.affinity`, affinity));
    expect(podOf(objects, kind, name).spec['affinity']).toEqual(affinity);
  });

  test('without one replicas prefer nodes of their own', async () => {
    const objects = await rendered();
    for (const name of ['svc3-operator', 'svc3-api'])
      expect(podOf(objects, 'Deployment', name).spec['affinity']).toHaveProperty('podAntiAffinity');
    expect(podOf(objects, 'DaemonSet', 'svc3-node-agent').spec).not.toHaveProperty('affinity');
  });

  test('topology spread is about the replicas of the part, unless a selector says otherwise', async () => {
    const zone = {
      maxSkew: 1,
      topologyKey: 'topology.kubernetes.io/zone',
      whenUnsatisfiable: 'DoNotSchedule',
    };
    const other = { ...zone, labelSelector: { matchLabels: { app: 'other' } } };
    const objects = await rendered(json('api.topologySpreadConstraints', [zone, other]));
    const { spec } = podOf(objects, 'Deployment', 'svc3-api');
    const selector = (specOf(objects, 'Deployment', 'svc3-api') as { selector: object }).selector;
    expect(spec['topologySpreadConstraints']).toEqual([{ ...zone, labelSelector: selector }, other]);
  });
});

describe('labels and annotations', () => {
  test('common labels are on every object but the kinds, and on pods, not in selectors', async () => {
    const objects = await rendered(...allOn, '--set=commonLabels.team=platform');
    for (const { kind, metadata } of objects.filter((object) => object.kind !== 'CustomResourceDefinition'))
      expect([kind, metadata.name, metadata.labels?.['team']]).toEqual([kind, metadata.name, 'platform']);
    expect(podOf(objects, 'Deployment', 'svc3-api').metadata.labels).toHaveProperty('team', 'platform');
    expect(JSON.stringify(specOf(objects, 'Deployment', 'svc3-api')['selector'])).not.toContain('platform');
  });

  test('labels of pods are on those of the part alone, annotations on its object', async () => {
    const objects = await rendered('--set=api.podLabels.tier=front', '--set=api.annotations.note=mine');
    expect(podOf(objects, 'Deployment', 'svc3-api').metadata.labels).toHaveProperty('tier', 'front');
    expect(podOf(objects, 'Deployment', 'svc3-operator').metadata.labels).not.toHaveProperty('tier');
    const api = objects.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'svc3-api');
    expect(api?.metadata.annotations).toEqual({ note: 'mine' });
  });
});

describe('a label that is common and of one object', () => {
  const team = (value: string) => [`--set=commonLabels.team=common`, `--set=${value}.team=own`];

  test.each([
    ['Deployment', 'svc3-api', 'api.podLabels', []],
    ['DaemonSet', 'svc3-node-agent', 'nodeAgent.podLabels', []],
  ])('is on the pods of the %s as that says it', async (kind, name, value, more) => {
    const objects = await rendered(...team(value), ...more);
    expect(podOf(objects, kind, name).metadata.labels).toHaveProperty('team', 'own');
  });

  test.each([
    ['ServiceMonitor', 'svc3-api', 'serviceMonitor'],
    ['PodMonitor', 'svc3-api', 'podMonitor'],
    ['PodMonitor', 'svc3-vms', 'vmMetrics'],
    ['PrometheusRule', 'svc3', 'prometheusRule'],
    ['ConfigMap', 'svc3-dashboard-vm', 'dashboards'],
  ])('is on the %s %s as that says it', async (kind, name, value) => {
    const objects = await rendered(...team(`${value}.labels`), `--set=${value}.enabled=true`);
    const labels = objects
      .filter((object) => object.kind === kind && object.metadata.labels?.['team'] === 'own')
      .map(({ metadata }) => metadata.name);
    expect(labels).toContain(name);
  });

  test('the checksum of the settings is the chart’s, whatever the values say', async () => {
    const set = '--set-string=api.podAnnotations.svc3\\.dev/settings-checksum=mine';
    const { metadata } = podOf(await rendered(set), 'Deployment', 'svc3-api') as unknown as Rendered;
    expect(metadata.annotations?.['svc3.dev/settings-checksum']).toMatch(/^[0-9a-f]{64}$/);
  });
});

describe('ways to the api', () => {
  test('none by default', async () => {
    expect(await helmTemplate()).not.toMatch(/kind: (Ingress|TLSRoute|HTTPRoute|BackendTLSPolicy)\n/);
  });

  test('an Ingress to its HTTPS port', async () => {
    const objects = await rendered(
      '--set=api.ingress.enabled=true',
      '--set=api.ingress.className=nginx',
      '--set=api.ingress.tlsSecretName=vms-tls',
      '--set=api.ingress.hosts={vms.example.com}',
    );
    expect(specOf(objects, 'Ingress', 'svc3-api')).toEqual({
      ingressClassName: 'nginx',
      tls: [{ hosts: ['vms.example.com'], secretName: 'vms-tls' }],
      rules: [
        {
          host: 'vms.example.com',
          http: {
            paths: [
              {
                path: '/',
                pathType: 'Prefix',
                backend: { service: { name: 'svc3-api', port: { name: 'https' } } },
              },
            ],
          },
        },
      ],
    });
  });

  const gateway = [
    '--set=api.gateway.enabled=true',
    '--set=api.gateway.hostnames={vms.example.com}',
    json('api.gateway.parentRefs', [{ name: 'public', namespace: 'gateways', sectionName: 'tls' }]),
  ];
  // With what the schemas of the Gateway API fill in, so that Argo CD finds its lists as it wrote them.
  const parent = { group: 'gateway.networking.k8s.io', kind: 'Gateway' };
  const route = {
    parentRefs: [{ ...parent, name: 'public', namespace: 'gateways', sectionName: 'tls' }],
    hostnames: ['vms.example.com'],
    rules: [{ backendRefs: [{ group: '', kind: 'Service', name: 'svc3-api', port: 443, weight: 1 }] }],
  };

  test('a TLSRoute, which passes TLS through', async () => {
    const objects = await rendered(...gateway);
    expect(specOf(objects, 'TLSRoute', 'svc3-api')).toEqual(route);
    expect(objects.map(({ kind }) => kind)).not.toContain('BackendTLSPolicy');
  });

  const ended = [
    ...gateway,
    '--set=api.gateway.route=HTTPRoute',
    '--set=api.gateway.caConfigMap=svc3-ca',
  ] as const;

  test('an HTTPRoute with the policy by which the Gateway trusts the api', async () => {
    const objects = await rendered(...ended);
    const matches = [{ path: { type: 'PathPrefix', value: '/' } }];
    expect(specOf(objects, 'HTTPRoute', 'svc3-api')).toEqual({
      ...route,
      rules: route.rules.map((rule) => Object.assign({ matches }, rule)),
    });
    expect(specOf(objects, 'BackendTLSPolicy', 'svc3-api')).toEqual({
      targetRefs: [{ group: '', kind: 'Service', name: 'svc3-api' }],
      validation: {
        hostname: 'vms.example.com',
        caCertificateRefs: [{ group: '', kind: 'ConfigMap', name: 'svc3-ca' }],
      },
    });
  });

  // Gateway API 1.1 to 1.3 have HTTPRoute v1, but BackendTLSPolicy v1alpha3.
  test.each([
    ['the newest of each', [], 'v1', 'v1'],
    ['an older route', ['api.gateway.apiVersion=gateway.networking.k8s.io/v1beta1'], 'v1beta1', 'v1'],
    [
      'an older policy',
      ['api.gateway.policyApiVersion=gateway.networking.k8s.io/v1alpha3'],
      'v1',
      'v1alpha3',
    ],
  ])('route and policy have versions of their own: %s', async (_, sets, route, policy) => {
    const objects = await rendered(...ended, ...sets.map((set) => `--set=${set}`));
    const versions = ['HTTPRoute', 'BackendTLSPolicy'].map(
      (kind) => objects.find((object) => object.kind === kind)?.apiVersion,
    );
    expect(versions).toEqual([route, policy].map((version) => `gateway.networking.k8s.io/${version}`));
  });

  test('a parent that is no Gateway stays what the values say', async () => {
    const mesh = { group: '', kind: 'Service', name: 'mesh' };
    const objects = await rendered(...gateway, json('api.gateway.parentRefs', [mesh]));
    expect(specOf(objects, 'TLSRoute', 'svc3-api')['parentRefs']).toEqual([mesh]);
  });

  // The names inside the cluster have a certificate of their own, which no authority has signed.
  test.each([
    ['that of its address', 'https://API.example.com:8443/svc3', 'vms.example.com', 'api.example.com'],
    ['the first precise one of the route', '', '*.example.com,vms.example.com', 'vms.example.com'],
    ['no number', 'https://192.0.2.1', 'vms.example.com', 'vms.example.com'],
    ['no number of IPv6', 'https://[2001:db8::1]:443', 'vms.example.com', 'vms.example.com'],
  ])('the Gateway looks for the name of the api: %s', async (_, baseUrl, hostnames, hostname) => {
    const more = [`--set=api.baseUrl=${baseUrl}`, `--set=api.gateway.hostnames={${hostnames}}`];
    const policy = specOf(await rendered(...ended, ...more), 'BackendTLSPolicy', 'svc3-api');
    expect(policy['validation']).toMatchObject({ hostname });
  });

  test('an HTTPRoute is refused where the api has no name', async () => {
    const wide = helmTemplate(...ended, '--set=api.gateway.hostnames={*.example.com}');
    await expect(wide).rejects.toThrow('api.gateway: HTTPRoute needs the name in the certificate of the api');
  });
});

test('remote registries are named with and without scheme, port and path', async () => {
  const registries = [
    'https://registry.example.com',
    'other.example.com:5000/team/disks',
    '[2001:db8::1]:5000',
  ];
  const objects = await rendered(json('remoteRegistries', registries));
  const settings = objects.find(({ metadata }) => metadata.name === 'svc3-settings');
  expect(settings?.data?.['SVC3_REMOTE_REGISTRIES']).toBe(registries.join(','));
});

describe('issuer and client of the login', () => {
  const issuer = '--set=api.oidc.issuerUrl=https://login.example.com/realms/team';
  const client = '--set=api.oidc.clientId=svc3';

  test('are settings of the api', async () => {
    const objects = await rendered(issuer, client);
    expect(objects.find(({ metadata }) => metadata.name === 'svc3-settings')?.data).toMatchObject({
      SVC3_OIDC_ISSUER_URL: 'https://login.example.com/realms/team',
      SVC3_OIDC_CLIENT_ID: 'svc3',
    });
  });

  test.each([
    ['one without the other', [issuer], 'api.oidc: issuerUrl and clientId are set together or not at all'],
    ['plain http', ['--set=api.oidc.issuerUrl=http://login.example.com', client], 'issuerUrl'],
    [
      'a secret, which a public client has not',
      [issuer, client, '--set=api.oidc.clientSecret=s'],
      'clientSecret',
    ],
  ])('are refused with %s', async (_, args, why) => {
    await expect(helmTemplate(...args)).rejects.toThrow(why);
  });
});

describe('monitors', () => {
  const named = (objects: readonly Rendered[], kind: string): string[] =>
    objects.filter((object) => object.kind === kind).map(({ metadata }) => metadata.name);
  const parts = ['svc3-api', 'svc3-node-agent', 'svc3-operator'];

  test('serviceMonitor renders ServiceMonitors, each of which finds one Service by its labels', async () => {
    const objects = await rendered('--set=serviceMonitor.enabled=true');
    expect(named(objects, 'ServiceMonitor')).toEqual(parts);
    expect(named(objects, 'PodMonitor')).toEqual([]);
    for (const name of parts) {
      const { selector } = specOf(objects, 'ServiceMonitor', name) as {
        selector: { matchLabels: Record<string, string> };
      };
      const found = objects.filter(
        ({ kind, metadata }) =>
          kind === 'Service' &&
          Object.entries(selector.matchLabels).every(([key, value]) => metadata.labels?.[key] === value),
      );
      expect(found.map(({ metadata }) => metadata.name)).toEqual([`${name}-metrics`]);
    }
  });

  test('podMonitor renders PodMonitors and no Service', async () => {
    const objects = await rendered('--set=podMonitor.enabled=true');
    expect(named(objects, 'PodMonitor')).toEqual(parts);
    expect(named(objects, 'ServiceMonitor')).toEqual([]);
    expect(named(objects, 'Service')).toEqual(['svc3-api']);
  });

  test('of a node agent that is not there nothing is asked', async () => {
    const objects = await rendered('--set=serviceMonitor.enabled=true', '--set=nodeAgent.enabled=false');
    expect(named(objects, 'ServiceMonitor')).toEqual(['svc3-api', 'svc3-operator']);
  });

  test.each(['true', 'false'])('the operator knows whether there are node agents: %s', async (enabled) => {
    const objects = await rendered(`--set=nodeAgent.enabled=${enabled}`);
    const settings = objects.find(({ metadata }) => metadata.name === 'svc3-settings');
    expect(settings?.data).toMatchObject({ SVC3_NODE_AGENT_ENABLED: enabled });
  });

  test('the operator knows which nodes have one', async () => {
    const selectorOf = async (...values: string[]) => {
      const objects = await rendered(...values);
      return objects.find(({ metadata }) => metadata.name === 'svc3-settings')?.data?.[
        'SVC3_NODE_AGENT_NODE_SELECTOR'
      ];
    };
    expect(await selectorOf()).toBe('{}');
    // A key that is left empty in a file of values.
    expect(await selectorOf('--set=nodeAgent.nodeSelector=null')).toBe('{}');
    expect(await selectorOf('--set=nodeAgent.nodeSelector.pool=vms')).toBe('{"pool":"vms"}');
  });
});

test.each([
  ['a quantity that is none', ['api.resources.limits.memory=lots'], "at '/api/resources/limits/memory'"],
  ['a negative quantity', ['operator.resources.requests.cpu=-1'], "at '/operator/resources/requests/cpu'"],
  [
    'an unknown field of resources',
    ['api.resources.limit.cpu=1'],
    "additional properties 'limit' not allowed",
  ],
  ['a port beyond the last one', ['portRanges.vnc=5999-70000'], "at '/portRanges/vnc'"],
  ['a port that nodes have for themselves', ['portRanges.ssh=22-60'], "at '/portRanges/ssh'"],
  ['port 0', ['hostPorts.allowed=0-100'], "at '/hostPorts/allowed'"],
  [
    'a range that ends before it begins',
    ['portRanges.ssh=8871-8822'],
    'portRanges.ssh: the range 8871-8822 ends before it begins',
  ],
  [
    'a label of ours',
    ['commonLabels.svc3\\.dev/owner=me'],
    "at '/commonLabels/svc3.dev~1owner': false schema",
  ],
  ['a label that Kubernetes would refuse', ['api.podLabels.team=a b'], "at '/api/podLabels/team'"],
  ['an affinity of no kind', ['api.affinity.nodes=x'], "additional properties 'nodes' not allowed"],
  [
    'a spread without a topology',
    ['api.topologySpreadConstraints[0].maxSkew=1'],
    "at '/api/topologySpreadConstraints/0'",
  ],
  ['a toleration with an unknown effect', ['api.tolerations[0].effect=No'], "at '/api/tolerations/0/effect'"],
  ['an Ingress without a host', ['api.ingress.enabled=true'], "at '/api/ingress/hosts'"],
  ['a route without a Gateway', ['api.gateway.enabled=true'], "at '/api/gateway/parentRefs'"],
  [
    'an HTTPRoute that cannot trust the api',
    [
      'api.gateway.enabled=true',
      'api.gateway.route=HTTPRoute',
      'api.gateway.hostnames={a.example.com}',
      'api.gateway.parentRefs[0].name=public',
    ],
    "at '/api/gateway/caConfigMap'",
  ],
  [
    'a policy of the Gateway in a version that no release has',
    ['api.gateway.policyApiVersion=gateway.networking.k8s.io/v1beta1'],
    "at '/api/gateway/policyApiVersion'",
  ],
  [
    'a port of the nodes for a Service that has none',
    ['api.service.nodePort=30443'],
    "at '/api/service/type'",
  ],
  ['a namespace of the chart’s own for VMs', ['defaultNamespace=svc3-credentials'], "at '/defaultNamespace'"],
  [
    'a remote registry that ends with a slash',
    ['remoteRegistries[0]=r.example.com/'],
    "at '/remoteRegistries/0'",
  ],
  ['a collector at no port', ['tracing.endpoint=http://otel-collector:PORT'], "at '/tracing/endpoint'"],
  ['an address that is still to be written', ['api.baseUrl=https://<your-host>'], "at '/api/baseUrl'"],
  ['a store at a port beyond the last one', ['store.url=https://r.example.com:99999'], "at '/store/url'"],
  ['an interval without a unit', ['podMonitor.interval=30'], "at '/podMonitor/interval'"],
  [
    'an interval of more digits than are counted',
    ['vmMetrics.interval=9999999999h'],
    "at '/vmMetrics/interval'",
  ],
  ...['serviceMonitor', 'podMonitor', 'vmMetrics'].flatMap((value): [string, string[], string][] => [
    [`a ${value} of every 10m`, [`${value}.enabled=true`, `${value}.interval=10m`], `${value}.interval: 10m`],
    [
      `a ${value} of every 241s`,
      [`${value}.enabled=true`, `${value}.interval=241s`],
      `${value}.interval: 241s`,
    ],
  ]),
])('%s is refused with the value named', async (_, sets, message) => {
  await expect(helmTemplate(...sets.map((set) => `--set=${set}`))).rejects.toThrow(message);
});

describe('network policies of VM pods', () => {
  const policiesOf = (objects: readonly Rendered[]) =>
    objects
      .filter(
        ({ kind, metadata }) =>
          kind === 'NetworkPolicy' && metadata.labels?.['app.kubernetes.io/component'] === 'vm',
      )
      .map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);

  test('open the endpoint of the runner to operator, api and worker pods, and nothing else', async () => {
    const objects = await rendered();
    expect(policiesOf(objects)).toEqual(['svc3-default/svc3-vms']);
    const vms = { 'app.kubernetes.io/part-of': 'svc3', 'app.kubernetes.io/component': 'vm' };
    expect(specOf(objects, 'NetworkPolicy', 'svc3-vms')).toEqual({
      podSelector: { matchLabels: vms },
      policyTypes: ['Ingress'],
      ingress: [
        {
          from: [
            {
              namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'svc3-system' } },
              podSelector: {
                matchLabels: { 'app.kubernetes.io/part-of': 'svc3' },
                matchExpressions: [
                  { key: 'app.kubernetes.io/component', operator: 'In', values: ['operator', 'api'] },
                ],
              },
            },
            { podSelector: { matchLabels: { ...vms, 'app.kubernetes.io/component': 'worker' } } },
          ],
          ports: [{ port: 8443, protocol: 'TCP' }],
        },
      ],
    });
  });

  test('are made in the namespaces of the values, each once', async () => {
    const objects = await rendered(json('networkPolicies.namespaces', ['team-a', 'svc3-default', 'team-b']));
    expect(policiesOf(objects)).toEqual(['svc3-default/svc3-vms', 'team-a/svc3-vms', 'team-b/svc3-vms']);
  });

  test('are made in namespaces whose names are numbers to YAML', async () => {
    const objects = await rendered(json('networkPolicies.namespaces', ['2024']));
    const names = objects
      .filter(({ kind }) => kind === 'NetworkPolicy')
      .map(({ metadata }) => metadata.namespace);
    expect(names).toContain('2024');
  });

  test('open all ports of guests but those of the runner to those that the values name', async () => {
    const from = [{ ipBlock: { cidr: '192.0.2.0/24' } }];
    const objects = await rendered(
      json('networkPolicies.guestsFrom', from),
      json('networkPolicies.namespaces', ['team-a']),
    );
    expect(policiesOf(objects).filter((name) => name.endsWith('/svc3-guests'))).toEqual([
      'svc3-default/svc3-guests',
      'team-a/svc3-guests',
    ]);
    expect(specOf(objects, 'NetworkPolicy', 'svc3-guests')['ingress']).toEqual([
      {
        from,
        ports: [
          { port: 1, endPort: 8442, protocol: 'TCP' },
          { port: 8445, endPort: 65535, protocol: 'TCP' },
          { port: 1, endPort: 65535, protocol: 'UDP' },
        ],
      },
    ]);
  });

  test.each(['charts/svc3/values.yaml', 'docs/networking.md'])(
    'open guests to addresses of both families and to pods with what %s has for everybody',
    async (file) => {
      const text = await readFile(join(import.meta.dirname, '../../..', file), 'utf8');
      const [example = ''] = /\[\{ipBlock: \{cidr: 0\.0\.0\.0\/0.*\}\]/.exec(text) ?? [];
      const objects = await rendered(json('networkPolicies.guestsFrom', parse(example)));
      const [rule] = specOf(objects, 'NetworkPolicy', 'svc3-guests')['ingress'] as { from: unknown }[];
      expect(rule?.from).toEqual([
        { ipBlock: { cidr: '0.0.0.0/0' } },
        { ipBlock: { cidr: '::/0' } },
        { namespaceSelector: {} },
      ]);
    },
  );

  test('are none where the values say so', async () => {
    expect(policiesOf(await rendered('--set=networkPolicies.enabled=false'))).toEqual([]);
  });
});

describe("network policies of svc3's own pods", () => {
  const health = { ports: [{ port: 8081, protocol: 'TCP' }] };
  const serving = { ports: [{ port: 8443, protocol: 'TCP' }] };
  const ingressOf = (objects: readonly Rendered[]) =>
    ['svc3-api', 'svc3-operator', 'svc3-node-agent'].map(
      (name) => specOf(objects, 'NetworkPolicy', name)['ingress'],
    );

  test('open health and metrics to everybody, and where the values name somebody to nobody else', async () => {
    expect(ingressOf(await rendered())).toEqual([[serving, health], [health], [health]]);
    const from = [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }];
    const narrow = { ...health, from };
    expect(ingressOf(await rendered(json('networkPolicies.metricsFrom', from)))).toEqual([
      [serving, narrow],
      [narrow],
      [narrow],
    ]);
  });
});
