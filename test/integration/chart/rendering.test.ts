import { describe, expect, test } from 'vitest';
import { readFileSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { PodSpec, PolicyRule } from '../../../src/api/core.ts';
import { namespaces, objectNames, productVersion } from '../../../src/api/meta.ts';
import { releasedDescription } from '../../../src/release/chart.ts';
import { temporaryFolder } from '../../support/controlplane.ts';
import { type Rendered, allOn, chart, helmTemplate, helmTemplateOf, objectsOf, rendered } from './helm.ts';

const root = join(import.meta.dirname, '../../..');

function named(objects: readonly Rendered[], kind: string, name: string): Rendered {
  const found = objects.find((object) => object.kind === kind && object.metadata.name === name);
  if (found === undefined) throw new Error(`the chart has no ${kind} ${name}`);
  return found;
}

function includesRule(rules: readonly PolicyRule[], sought: PolicyRule): boolean {
  return rules.some((rule) => JSON.stringify(rule) === JSON.stringify(sought));
}

function podSpec(object: Rendered): PodSpec {
  return (object.spec as unknown as { template: { spec: PodSpec } }).template.spec;
}

test('rendering is the same every time', async () => {
  expect(await helmTemplate(...allOn)).toBe(await helmTemplate(...allOn));
});

test('chart, package and API have one version', async () => {
  const chart = readFileSync(join(root, 'charts/svc3/Chart.yaml'), 'utf8');
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  expect(version).toBe(productVersion);
  expect(chart).toContain(`\nversion: ${productVersion}\n`);
  expect(chart).toContain(`\nappVersion: ${productVersion}\n`);
});

describe('images', () => {
  const digest = `sha256:${'a'.repeat(64)}`;
  const settingsOf = async (folder: string, ...args: string[]) =>
    named(objectsOf(await helmTemplateOf(folder, ...args)), 'ConfigMap', 'svc3-settings').data;

  /** The chart as a release writes it. */
  async function released(): Promise<string> {
    const folder = temporaryFolder();
    await cp(chart, folder, { recursive: true });
    const file = join(folder, 'Chart.yaml');
    const image = (name: string) => ({ repository: `r.example.com:5000/${name}`, digest });
    const images = { svc3: image('svc3'), runner: image('svc3-runner') };
    await writeFile(file, releasedDescription(await readFile(file, 'utf8'), images, '3.0.0'));
    return folder;
  }

  test('of a chart that was not released have its version', async () => {
    expect(await settingsOf(chart)).toMatchObject({
      SVC3_WORKER_IMAGE: `svc3:${productVersion}`,
      SVC3_RUNNER_IMAGE: `svc3-runner:${productVersion}`,
    });
  });

  // Helm's --reuse-values gives the new chart the default values of the one before.
  test('of a release are its own in every pod, also with the values of another one', async () => {
    const folder = await released();
    const objects = objectsOf(await helmTemplateOf(folder, '-f', join(chart, 'values.yaml')));
    const used = podsOf(objects).flatMap(({ containers }) => containers.map(({ image }) => image));
    const [own, runner] = ['svc3', 'svc3-runner'].map((name) => `r.example.com:5000/${name}:3.0.0@${digest}`);
    expect(new Set(used)).toEqual(new Set([own, runner]));
    expect(await settingsOf(folder)).toMatchObject({ SVC3_WORKER_IMAGE: own, SVC3_RUNNER_IMAGE: runner });
  });

  test('of a mirror have its name and the digests of the release, until values say otherwise', async () => {
    const folder = await released();
    const mirror = [
      '--set=image.repository=m.example.com/svc3',
      '--set=runner.image.repository=m.example.com/r',
    ];
    expect(await settingsOf(folder, ...mirror)).toMatchObject({
      SVC3_WORKER_IMAGE: `m.example.com/svc3:3.0.0@${digest}`,
      SVC3_RUNNER_IMAGE: `m.example.com/r:3.0.0@${digest}`,
    });
    expect(await settingsOf(folder, '--set=image.tag=mine', '--set=runner.image.tag=its')).toMatchObject({
      SVC3_WORKER_IMAGE: 'r.example.com:5000/svc3:mine',
      SVC3_RUNNER_IMAGE: 'r.example.com:5000/svc3-runner:its',
    });
    expect(
      await settingsOf(folder, `--set=image.tag=@${digest}`, `--set=runner.image.tag=@${digest}`),
    ).toMatchObject({
      SVC3_WORKER_IMAGE: `r.example.com:5000/svc3@${digest}`,
      SVC3_RUNNER_IMAGE: `r.example.com:5000/svc3-runner@${digest}`,
    });
  });
});

test('a version with the digest of its artifact, as Flux gives it, makes valid labels', async () => {
  const folder = temporaryFolder();
  await cp(chart, folder, { recursive: true });
  const file = join(folder, 'Chart.yaml');
  const suffix = '+4fda46fd8c4e';
  const versions = (await readFile(file, 'utf8')).replaceAll(/^(version|appVersion): .*$/gm, `$&${suffix}`);
  await writeFile(file, versions);
  const objects = objectsOf(await helmTemplateOf(folder, ...allOn));
  expect(named(objects, 'Deployment', 'svc3-api').metadata.labels).toMatchObject({
    'helm.sh/chart': `svc3-${productVersion}_4fda46fd8c4e`,
    'app.kubernetes.io/version': `${productVersion}_4fda46fd8c4e`,
  });
  // Neither in a label nor in the tag of an image.
  expect(JSON.stringify(objects)).not.toContain(suffix);
});

test.each([
  ['a text for a number', ['operator.replicas=many'], "at '/operator/replicas': got string, want integer"],
  [
    'a value that does not exist',
    ['operator.replica=2'],
    "at '/operator': additional properties 'replica' not allowed",
  ],
  [
    'an unknown accelerator',
    ['accelerator=xen'],
    "at '/accelerator': value must be one of 'auto', 'kvm', 'tcg'",
  ],
  ['a store with a path', ['store.url=https://r.example.com/x'], "at '/store/url'"],
  ['a store with a password', ['store.url=https://me:it@r.example.com'], "at '/store/url'"],
  ['an address with a password', ['api.baseUrl=https://me:it@vms.example.com'], "at '/api/baseUrl'"],
  [
    'a kube-apiserver with a password',
    ['api.clusterEndpoint=https://me:it@k.example.com'],
    "at '/api/clusterEndpoint'",
  ],
  [
    'an issuer with a password',
    ['api.oidc.issuerUrl=https://me:it@login.example.com', 'api.oidc.clientId=svc3'],
    "at '/api/oidc/issuerUrl'",
  ],
  ['a single port for a range', ['portRanges.ssh=8822'], "at '/portRanges/ssh'"],
  ['an overcommit below one', ['cpuOvercommit=0'], "at '/cpuOvercommit': minimum: got 0, want 1"],
  ['a card id in capitals', ['gpuPassthrough.towerCards[0]=1002:679E'], "at '/gpuPassthrough/towerCards/0'"],
  ['a collector without a scheme', ['tracing.endpoint=collector:4318'], "at '/tracing/endpoint'"],
  ['a collector with a password', ['tracing.endpoint=http://me:it@collector:4318'], "at '/tracing/endpoint'"],
  ['more than all traces', ['tracing.sampleRatio=2'], "at '/tracing/sampleRatio': maximum: got 2, want 1"],
  [
    'a switch that is neither',
    ['gpuPassthrough.enabled=maybe'],
    "at '/gpuPassthrough/enabled': got string, want boolean",
  ],
])('%s is refused with the value named', async (_, sets, message) => {
  await expect(helmTemplate(...sets.map((set) => `--set=${set}`))).rejects.toThrow(message);
});

describe('traces', () => {
  const processes = async (...sets: string[]) => {
    const objects = await rendered(...sets);
    return ['svc3-operator', 'svc3-api'].map((name) => podSpec(named(objects, 'Deployment', name)));
  };
  const settings = async (...sets: string[]) =>
    named(await rendered(...sets), 'ConfigMap', 'svc3-settings').data;

  test('are not spoken of where they are off, whatever else is set', async () => {
    const off = await helmTemplate('--set=tracing.headersSecret.name=h', '--set=tracing.caConfigMap.name=c');
    expect(off).not.toMatch(/OTEL_|tracing/);
  });

  test('reach operator and api under the names of OpenTelemetry, with headers from a Secret and the CA as a file', async () => {
    expect(await settings(...allOn)).toMatchObject({
      OTEL_EXPORTER_OTLP_ENDPOINT: 'https://otel.example.com:4318',
      OTEL_TRACES_SAMPLER_ARG: '1',
    });
    const specs = await processes(...allOn, '--set=tracing.caConfigMap.key=bundle.pem');
    for (const { containers, volumes } of specs) {
      const [container] = containers;
      expect(container?.env).toContainEqual({
        name: 'OTEL_EXPORTER_OTLP_HEADERS',
        valueFrom: { secretKeyRef: { name: 'otel-headers', key: 'headers' } },
      });
      const mount = container?.volumeMounts?.find(({ name }) => name === 'tracing');
      const file = container?.env?.find(({ name }) => name === 'OTEL_EXPORTER_OTLP_CERTIFICATE')?.value;
      expect(file).toBe(`${mount?.mountPath}/ca.crt`);
      expect(volumes).toContainEqual({
        name: 'tracing',
        configMap: { name: 'otel-ca', items: [{ key: 'bundle.pem', path: 'ca.crt' }] },
      });
    }
  });

  test('without them need neither', async () => {
    for (const { containers, volumes = [] } of await processes('--set=tracing.endpoint=http://otel:4318')) {
      expect(volumes).toEqual([]);
      const names = containers[0]?.env?.map(({ name }) => name) ?? [];
      expect(names.filter((name) => name.startsWith('OTEL_'))).toEqual([]);
    }
  });
});

describe('namespaces', () => {
  const enforced = (objects: readonly Rendered[]) =>
    Object.fromEntries(
      objects
        .filter(({ kind }) => kind === 'Namespace')
        .map(({ metadata }) => [metadata.name, metadata.labels?.['pod-security.kubernetes.io/enforce']]),
    );

  test('all but the one of the release are made, each with its Pod Security level', async () => {
    const others = {
      'svc3-node': 'privileged',
      'svc3-credentials': 'restricted',
      'svc3-users': 'restricted',
      'svc3-default': 'privileged',
    };
    expect(enforced(await rendered())).toEqual(others);
    expect(enforced(await rendered('--namespace=other'))).toEqual({ ...others, 'svc3-system': 'restricted' });
  });

  // Helm's annotation keeps Argo CD from deleting with the Application, not from pruning: another defaultNamespace would take the VMs of the one before along.
  test('what survives an uninstall is not pruned by Argo CD, and nothing else', async () => {
    for (const { metadata } of await rendered(...allOn)) {
      const { 'helm.sh/resource-policy': policy, 'argocd.argoproj.io/sync-options': options } =
        metadata.annotations ?? {};
      expect(options, metadata.name).toBe(policy === 'keep' ? 'Prune=false' : undefined);
    }
  });

  test('what users own survives an uninstall, and what guards it: kinds, VM namespace, keys, credentials, users, policies of pods', async () => {
    const keptBy = async (...args: string[]) => {
      const kept = (await rendered(...args)).filter(
        ({ metadata }) => metadata.annotations?.['helm.sh/resource-policy'] === 'keep',
      );
      return [...new Set(kept.map(({ metadata }) => metadata.name))].sort();
    };
    const kept = [
      'images.svc3.dev',
      'isos.svc3.dev',
      'registrycredentials.svc3.dev',
      'svc3-credentials',
      'svc3-default',
      'svc3-own-pods',
      'svc3-restricted-pods',
      'svc3-users',
      'vmconfigs.svc3.dev',
      'vmpools.svc3.dev',
      'vms.svc3.dev',
    ];
    expect(await keptBy()).toEqual(kept);
    expect(await keptBy('--namespace=other')).toEqual([...kept, 'svc3-system'].sort());
  });
});

test('names of the chart are those that the code uses', async () => {
  const objects = await rendered();
  expect(named(objects, 'Service', objectNames.apiService).metadata.namespace).toBe(namespaces.system);
  expect(named(objects, 'ServiceAccount', objectNames.operatorServiceAccount).metadata.namespace).toBe(
    namespaces.system,
  );
  expect(named(objects, 'ServiceAccount', objectNames.apiServiceAccount).metadata.namespace).toBe(
    namespaces.system,
  );
  expect(named(objects, 'ServiceAccount', objectNames.nodeAgentServiceAccount).metadata.namespace).toBe(
    namespaces.node,
  );
});

test('the aggregated API can be left out, with every object and every right that only it needs', async () => {
  const settings = (object: Rendered) =>
    object.kind === 'ConfigMap' && object.metadata.name === 'svc3-settings';
  const checksum = 'svc3.dev/settings-checksum';
  /** Every object by its name, and every rule of a role by the role's; settings and what restarts with them are asserted on their own. */
  const partsOf = (objects: readonly Rendered[]) =>
    new Set(
      objects
        .filter((object) => !settings(object))
        .flatMap(({ rules = [], ...object }) => {
          const { namespace = '', name } = object.metadata;
          const at = `${object.kind} ${namespace === '' ? '' : `${namespace}/`}${name}`;
          const whole = JSON.stringify(object, (key, value: unknown) => (key === checksum ? '' : value));
          return [whole, ...rules.map((rule) => JSON.stringify(rule))].map((part) => `${at} ${part}`);
        }),
    );
  const [all, without] = await Promise.all([rendered(), rendered('--set=aggregatedApi.enabled=false')]);
  const [more, left] = [partsOf(all), partsOf(without)];
  expect([...left.difference(more)]).toEqual([]);
  const only = [...more.difference(left)].map((part) => part.slice(0, part.indexOf(' {')));
  expect(only.sort()).toEqual([
    'APIService v1.api.svc3.dev',
    // The rule about that APIService.
    'ClusterRole svc3-api',
    'ClusterRole svc3-cluster-info',
    // Its only rule.
    'ClusterRole svc3-cluster-info',
    'ClusterRoleBinding svc3-cluster-info',
    'RoleBinding kube-system/svc3-api-authentication-reader',
  ]);
  expect(JSON.stringify(without)).not.toMatch(/apiservices|extension-apiserver/);
  const enabled = all.find(settings)?.data ?? {};
  expect(without.find(settings)?.data).toEqual({ ...enabled, SVC3_AGGREGATED_API_ENABLED: 'false' });
  expect(enabled['SVC3_AGGREGATED_API_ENABLED']).toBe('true');
});

test('changed settings restart the pods that read them', async () => {
  const checksum = (objects: Rendered[]) =>
    (
      named(objects, 'Deployment', 'svc3-operator').spec as unknown as {
        template: { metadata: { annotations: Record<string, string> } };
      }
    ).template.metadata.annotations['svc3.dev/settings-checksum'];
  expect(checksum(await rendered())).not.toBe(checksum(await rendered('--set=accelerator=tcg')));
  expect(checksum(await rendered())).toBe(checksum(await rendered('--set=operator.replicas=3')));
});

test('the node agent sees certs.d also where insecure registries are not allowed, to take its files back', async () => {
  const paths = (objects: Rendered[]) =>
    podSpec(named(objects, 'DaemonSet', 'svc3-node-agent')).volumes?.map(({ hostPath }) => hostPath?.path);
  const all = [
    '/sys',
    '/dev',
    '/var/lib/kubelet/device-plugins',
    '/etc/containerd/certs.d',
    '/etc/containerd',
  ];
  expect(paths(await rendered())).toEqual(all);
  expect(paths(await rendered('--set=insecureRegistries.enabled=true'))).toEqual(all);
});

test('the node agent keeps away from containerd where it has no folder of it', async () => {
  const { containers, volumes = [] } = podSpec(
    named(await rendered('--set=nodeAgent.certsDirectory='), 'DaemonSet', 'svc3-node-agent'),
  );
  const names = ['sys', 'dev', 'device-plugins'];
  expect(volumes.map(({ name }) => name)).toEqual(names);
  const [{ volumeMounts = [], env = [] } = {}] = containers;
  expect(volumeMounts.map(({ name }) => name)).toEqual(names);
  expect(env.filter(({ name }) => /CERTS|CONTAINERD/.test(name))).toEqual([]);
});

test.each([
  ['nodeAgent.enabled', '--set=nodeAgent.enabled=false'],
  ['nodeAgent.certsDirectory', '--set=nodeAgent.certsDirectory='],
])('nodes are not let trust a registry where no agent would take it back: %s', async (value, without) => {
  const both = helmTemplate('--set=insecureRegistries.enabled=true', without);
  await expect(both).rejects.toThrow(`insecureRegistries.enabled needs ${value}`);
  await expect(helmTemplate(without)).resolves.toContain('svc3-operator');
});

/** Those of operator, api, node agent and `helm test`. */
function podsOf(objects: readonly Rendered[]): PodSpec[] {
  const pods = objects.flatMap((object) =>
    object.kind === 'Pod'
      ? [object.spec as unknown as PodSpec]
      : ['Deployment', 'DaemonSet'].includes(object.kind)
        ? [podSpec(object)]
        : [],
  );
  expect(pods).toHaveLength(4);
  return pods;
}

test('every pod is for Linux nodes, whatever else they are to be', async () => {
  const selected = async (...args: string[]) =>
    podsOf(await rendered(...args)).map(({ nodeSelector }) => nodeSelector);
  const linux = { 'kubernetes.io/os': 'linux' };
  expect(await selected()).toEqual([linux, linux, linux, linux]);
  expect(await selected('--set=nodeAgent.nodeSelector.vms=yes')).toContainEqual({ ...linux, vms: 'yes' });
});

test('replicas that are not ready do not keep a node from being drained', async () => {
  const budgets = (await rendered()).filter(({ kind }) => kind === 'PodDisruptionBudget');
  expect(budgets.map(({ metadata }) => metadata.name).sort()).toEqual(['svc3-api', 'svc3-operator']);
  for (const { spec } of budgets) expect(spec?.['unhealthyPodEvictionPolicy']).toBe('AlwaysAllow');
});

test('every container drops all capabilities and cannot write its root', async () => {
  for (const container of podsOf(await rendered(...allOn)).flatMap(({ containers }) => containers))
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
});

describe('rights', () => {
  const allRules = (objects: readonly Rendered[]) =>
    objects
      .filter(({ kind }) => kind === 'ClusterRole' || kind === 'Role')
      .flatMap(({ metadata, rules = [] }) =>
        rules.map((rule) => ({ role: `${metadata.namespace ?? ''}/${metadata.name}`, rule })),
      );

  test('no rule has a wildcard', async () => {
    for (const { rule } of allRules(await rendered(...allOn)))
      expect([...rule.verbs, ...(rule.apiGroups ?? []), ...(rule.resources ?? [])]).not.toContain('*');
  });

  test('Secrets are only reached by name, except those that hold the credentials of registries', async () => {
    const unnamed = allRules(await rendered(...allOn))
      .filter(({ rule }) => rule.resources?.includes('secrets') === true && rule.resourceNames === undefined)
      .map(({ role, rule }) => [role, rule.verbs]);
    expect(unnamed).toEqual([
      ['svc3-credentials/svc3-operator', ['get', 'list', 'watch', 'delete']],
      ['svc3-credentials/svc3-credentials-admin', ['get', 'list', 'create', 'update', 'patch', 'delete']],
    ]);
  });

  test('operator and api have no right that none of their code uses', async () => {
    const rules = allRules(await rendered(...allOn));
    const of = (name: string, resource: RegExp) =>
      rules
        .filter(({ role, rule }) => role.endsWith(`/${name}`) && resource.test(rule.resources?.join() ?? ''))
        .map(({ role, rule }) => [role, rule.resourceNames ?? rule.resources, rule.verbs]);
    // A status names the disk that VMs boot.
    expect(of('svc3-api', /status/)).toEqual([]);
    expect(of('svc3-api', /^events$/)).toEqual([['svc3-system/svc3-api', ['events'], ['create']]]);
    // The key with which the api proves itself to people who send it their tokens.
    expect(JSON.stringify(of('svc3-operator', /secrets/))).not.toContain('svc3-api-tls');
    expect(of('svc3-operator', /^vmconfigs,/)).toEqual([
      ['/svc3-operator', ['vmconfigs', 'vmpools'], ['get', 'list', 'watch']],
    ]);
  });

  test('everybody may read what the installation allows, and its default namespace', async () => {
    const objects = await rendered();
    expect(named(objects, 'Role', 'svc3-settings').rules).toEqual([
      { apiGroups: [''], resources: ['configmaps'], resourceNames: ['svc3-settings'], verbs: ['get'] },
    ]);
    const { metadata, subjects } = named(objects, 'RoleBinding', 'svc3-settings') as Rendered & {
      subjects: unknown;
    };
    expect([metadata.namespace, subjects]).toEqual([
      'svc3-system',
      [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: 'system:authenticated' }],
    ]);
  });

  test('nobody may escalate: no impersonation, no RBAC writes, no token requests, no exec, no bind', async () => {
    const dangerous = new Set(['impersonate', 'bind', 'escalate']);
    const forbidden = new Set([
      'serviceaccounts/token',
      'pods/exec',
      'pods/binding',
      'roles',
      'clusterroles',
      'rolebindings',
      'clusterrolebindings',
      'validatingadmissionpolicies',
    ]);
    for (const { rule } of allRules(await rendered(...allOn))) {
      expect(rule.verbs.filter((verb) => dangerous.has(verb))).toEqual([]);
      expect(rule.resources?.filter((resource) => forbidden.has(resource)) ?? []).toEqual([]);
    }
  });

  test('who may see VMs sees what their pods use, and nothing of the nodes', async () => {
    const roles = await rendered(...allOn);
    for (const name of ['svc3-view', 'svc3-edit']) {
      const role = roles.find(({ kind, metadata }) => kind === 'ClusterRole' && metadata.name === name);
      expect(role?.rules?.filter(({ apiGroups }) => apiGroups?.includes('metrics.k8s.io'))).toEqual([
        { apiGroups: ['metrics.k8s.io'], resources: ['pods'], verbs: ['get', 'list'] },
      ]);
    }
  });

  test('who may delete Images sees the claims whose disks need them', async () => {
    const objects = await rendered();
    const sight = [{ apiGroups: [''], resources: ['persistentvolumeclaims'], verbs: ['get', 'list'] }];
    const given = (name: string) =>
      named(objects, 'ClusterRole', name).rules?.filter(({ resources }) =>
        resources?.includes('persistentvolumeclaims'),
      );
    expect(given('svc3-view')).toEqual([]);
    for (const name of ['svc3-edit', 'svc3-admin', 'svc3-cluster-admin'])
      expect(given(name), name).toEqual(sight);
  });

  test('each role may what the one before may', async () => {
    const objects = await rendered();
    const order = ['svc3-view', 'svc3-edit', 'svc3-admin', 'svc3-cluster-admin'];
    const given = order.map((name) => named(objects, 'ClusterRole', name).rules ?? []);
    for (const [at, rules] of given.entries())
      expect(given.slice(at).every((wider) => rules.every((rule) => includesRule(wider, rule)))).toBe(true);
  });

  test("registry credentials are never part of Kubernetes' own roles", async () => {
    const aggregated = (await rendered(...allOn)).filter(({ metadata }) =>
      Object.keys(metadata.labels ?? {}).some((label) =>
        label.startsWith('rbac.authorization.k8s.io/aggregate-to-'),
      ),
    );
    expect(aggregated.map(({ metadata }) => metadata.name).sort()).toEqual([
      'svc3-admin',
      'svc3-edit',
      'svc3-view',
    ]);
    const resources = (rules: readonly PolicyRule[] = []) => rules.flatMap((rule) => rule.resources ?? []);
    for (const { rules } of aggregated)
      expect(
        resources(rules).filter((resource) =>
          /registrycredentials|secrets|nodes\/tag|certificates/.test(resource),
        ),
      ).toEqual([]);
  });
});
