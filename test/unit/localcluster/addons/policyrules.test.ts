import { describe, expect, test } from 'vitest';
import type { Namespace, Pod } from '../../../../src/api/core.ts';
import { type NetworkPolicy, rulesetOf } from '../../../../src/localcluster/addons/policyrules.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

function aPod(namespace: string, name: string, podIP: string, more: Partial<Pod['spec']> = {}): Pod {
  return {
    metadata: storedMeta({ namespace, name, labels: { app: name } }),
    spec: { containers: [{ name: 'main', ports: [{ name: 'web', containerPort: 8080 }] }], ...more },
    status: { phase: 'Running', podIP },
  };
}

function aNamespace(name: string): Namespace {
  return { metadata: storedMeta({ name, labels: { 'kubernetes.io/metadata.name': name } }) };
}

function aPolicy(spec: NetworkPolicy['spec']): NetworkPolicy {
  return { metadata: { namespace: 'one', name: 'policy' }, spec };
}

const server = aPod('one', 'server', '10.244.1.2');
const client = aPod('one', 'client', '10.244.1.3');
const outsider = aPod('two', 'client', '10.244.2.2');
const ofServer = { podSelector: { matchLabels: { app: 'server' } } };

/** The lines of one chain, without its end. */
function chain(name: string, ...policies: NetworkPolicy[]): string[] {
  const namespaces = [aNamespace('one'), aNamespace('two')];
  const text = rulesetOf({ pods: [server, client, outsider], namespaces, policies });
  const body = text.split(`chain ${name} {\n`)[1]?.split('}\n  chain')[0] ?? '';
  return body
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && line !== '}' && !line.startsWith('reject') && !line.startsWith('type'));
}

const established = 'ct state established,related accept';

describe('which pods are isolated', () => {
  test('none without a policy', () => {
    expect(chain('forward')).toEqual([established]);
  });

  test('the selected ones of the namespace of the policy, for incoming connections', () => {
    const policy = aPolicy({ podSelector: { matchLabels: { app: 'client' } } });
    expect(chain('forward', policy)).toEqual([established, 'ip daddr { 10.244.1.3 } jump ingress']);
  });

  test('all of them by an empty selector, in both directions where the policy says so', () => {
    const policy = aPolicy({ podSelector: {}, policyTypes: ['Ingress', 'Egress'] });
    expect(chain('forward', policy)).toEqual([
      established,
      'ip saddr { 10.244.1.2, 10.244.1.3 } jump egress',
      'ip daddr { 10.244.1.2, 10.244.1.3 } jump ingress',
    ]);
  });

  test.each([
    ['in the network of its node', aPod('one', 'server', '10.231.0.11', { hostNetwork: true })],
    ['that has ended', { ...server, status: { phase: 'Succeeded', podIP: '10.244.1.2' } }],
    ['without an address', { ...server, status: { phase: 'Pending' } }],
  ])('no pod %s', (_, pod) => {
    const text = rulesetOf({ pods: [pod], namespaces: [], policies: [aPolicy({ podSelector: {} })] });
    expect(text).not.toContain('jump');
  });
});

describe('what a rule allows', () => {
  test.each<[string, NetworkPolicy['spec'], string[]]>([
    ['everything, by an empty rule', { ...ofServer, ingress: [{}] }, ['ip daddr { 10.244.1.2 } return']],
    ['nothing, without a rule', { ...ofServer, ingress: [] }, []],
    [
      'pods of the own namespace on a port',
      { ...ofServer, ingress: [{ from: [{ podSelector: {} }], ports: [{ port: 80 }] }] },
      ['ip saddr { 10.244.1.2, 10.244.1.3 } ip daddr { 10.244.1.2 } tcp dport 80 return'],
    ],
    [
      'pods of another namespace on a range of ports',
      {
        ...ofServer,
        ingress: [
          {
            from: [
              {
                namespaceSelector: {
                  matchExpressions: [
                    { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['one'] },
                  ],
                },
              },
            ],
            ports: [{ port: 80, endPort: 90, protocol: 'UDP' }],
          },
        ],
      },
      ['ip saddr { 10.244.2.2 } ip daddr { 10.244.1.2 } udp dport 80-90 return'],
    ],
    [
      'nobody, by a selector that selects nobody',
      { ...ofServer, ingress: [{ from: [{ podSelector: { matchLabels: { app: 'nobody' } } }] }] },
      [],
    ],
    [
      'a block but for a part of it',
      { ...ofServer, ingress: [{ from: [{ ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16'] } }] }] },
      ['ip saddr 10.0.0.0/8 ip saddr != { 10.1.0.0/16 } ip daddr { 10.244.1.2 } return'],
    ],
    [
      'a port by its name in the pod',
      { ...ofServer, ingress: [{ ports: [{ port: 'web' }] }] },
      ['ip daddr { 10.244.1.2 } tcp dport 8080 return'],
    ],
  ])('%s', (_, spec, lines) => {
    expect(chain('ingress', aPolicy(spec))).toEqual(lines);
  });

  test('the other way round for outgoing connections', () => {
    const egress = [{ to: [{ podSelector: { matchLabels: { app: 'client' } } }], ports: [{ port: 'web' }] }];
    expect(chain('egress', aPolicy({ ...ofServer, egress }))).toEqual([
      'ip saddr { 10.244.1.2 } ip daddr { 10.244.1.3 } tcp dport 8080 return',
    ]);
    expect(chain('forward', aPolicy({ ...ofServer, egress }))).toContain(
      'ip saddr { 10.244.1.2 } jump egress',
    );
  });
});
