import { z } from 'zod';
import { type Rule, rules } from './rule.ts';

/*
 * Where a VM may be with respect to labels of nodes and of pods: members of core/v1 Affinity and TopologySpreadConstraint under their
 * own names. Pods are those of the VM's namespace: others are other tenants'.
 */

const atomic = { 'x-kubernetes-list-type': 'atomic' } as const;

const name = '[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?';
const key = `^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?${name}$`;
const LabelKey = z.string().min(1).max(317).regex(new RegExp(key));
/** The key of a taint: that of a label, or empty. */
export const TaintKey = z
  .string()
  .max(317)
  .regex(new RegExp(`^(${key.slice(1, -1)})?$`));
/** The value of a label or a taint. */
export const LabelValue = z
  .string()
  .max(63)
  .regex(new RegExp(`^(${name})?$`));

const valuesRule: Rule = {
  rule: "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : (self.operator in ['Gt', 'Lt'] ? has(self.values) && size(self.values) == 1 && self.values[0].matches('^[0-9]+$') : !has(self.values) || size(self.values) == 0)",
  message: 'operators In and NotIn take values, Gt and Lt one number, Exists and DoesNotExist none',
  fieldPath: '.values',
};

const keysRule: Rule = {
  rule: `self.all(key, key.matches('${key}'))`,
  message:
    'keys have to be names of labels: a name of at most 63 characters, after a prefix and a slash if any',
};

const spreadOnce: Rule = {
  rule: 'self.all(a, self.exists_one(b, b.topologyKey == a.topologyKey && b.whenUnsatisfiable == a.whenUnsatisfiable))',
  message: 'a topologyKey is said once for each whenUnsatisfiable',
};

const topologyKey = LabelKey.describe(
  'Label of nodes; those with the same value are one place, e.g. kubernetes.io/hostname or topology.kubernetes.io/zone.',
);

const weight = z
  .int()
  .min(1)
  .max(100)
  .meta({ format: 'int32' })
  .describe('What it counts beside the others.');

const requirement = <const O extends string>(operators: readonly O[]) =>
  z
    .object({
      key: LabelKey.describe('Name of a label.'),
      operator: z.enum(operators).describe('How its value is compared.'),
      values: z.array(LabelValue).max(16).meta(atomic).optional().describe('With what it is compared.'),
    })
    .meta(rules([valuesRule]));

const nodeTerm = z.object({
  matchExpressions: z
    .array(requirement(['In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt']))
    .min(1)
    .max(8)
    .meta(atomic)
    .describe('What holds of the labels of the node: all of it.'),
});

const labelSelector = z
  .object({
    matchLabels: z
      .record(z.string(), LabelValue)
      .meta({ maxProperties: 16, ...rules([keysRule]) })
      .optional()
      .describe('Labels that they have.'),
    matchExpressions: z
      .array(requirement(['In', 'NotIn', 'Exists', 'DoesNotExist']))
      .max(8)
      .meta(atomic)
      .optional()
      .describe('What holds of their labels: all of it.'),
  })
  .describe(
    "Pods of the VM's namespace by their labels; the labels of a VM are on its pod. Empty selects all.",
  );

const podTerm = z.object({ labelSelector, topologyKey });

const podTerms = z.object({
  requiredDuringSchedulingIgnoredDuringExecution: z
    .array(podTerm)
    .max(8)
    .meta(atomic)
    .optional()
    .describe('What has to hold when the VM is placed: all of it.'),
  preferredDuringSchedulingIgnoredDuringExecution: z
    .array(z.object({ weight, podAffinityTerm: podTerm.describe('What is preferred.') }))
    .max(8)
    .meta(atomic)
    .optional()
    .describe('What is preferred among the nodes that fit.'),
});

const nodeTerms = z.object({
  requiredDuringSchedulingIgnoredDuringExecution: z
    .object({
      nodeSelectorTerms: z
        .array(nodeTerm)
        .min(1)
        .max(8)
        .meta(atomic)
        .describe('What has to hold: one of them.'),
    })
    .optional()
    .describe('What has to hold when the VM is placed.'),
  preferredDuringSchedulingIgnoredDuringExecution: z
    .array(z.object({ weight, preference: nodeTerm.describe('What is preferred.') }))
    .max(8)
    .meta(atomic)
    .optional()
    .describe('What is preferred among the nodes that fit.'),
});

export const Affinity = z
  .object({
    nodeAffinity: nodeTerms.optional().describe('Nodes by their labels.'),
    podAffinity: podTerms.optional().describe('Places where such pods are.'),
    podAntiAffinity: podTerms.optional().describe('Places where no such pods are.'),
  })
  .describe('Nodes and neighbours that the VM needs, prefers or avoids, as in a pod.');
export type Affinity = z.infer<typeof Affinity>;

export const TopologySpreadConstraints = z
  .array(
    z.object({
      maxSkew: z
        .int()
        .min(1)
        .max(1_000)
        .meta({ format: 'int32' })
        .describe('By how many such pods a place may be ahead of the one with the fewest.'),
      topologyKey,
      whenUnsatisfiable: z
        .enum(['DoNotSchedule', 'ScheduleAnyway'])
        .describe('DoNotSchedule: the VM waits. ScheduleAnyway: the place with the fewest is preferred.'),
      labelSelector,
    }),
  )
  .max(8)
  .meta({ ...atomic, ...rules([spreadOnce]) })
  .describe('How the VM and others are spread over places, as in a pod.');
export type TopologySpreadConstraint = z.infer<typeof TopologySpreadConstraints>[number];

/** The same among the settings in force: svc3 alone writes them, from fields that were checked, so that no schema is needed twice. */
export const effectiveAffinity = {
  affinity: opaque<Affinity>().describe('Nodes and neighbours that the VM needs, prefers or avoids.'),
  topologySpreadConstraints: z
    .array(opaque<TopologySpreadConstraint>())
    .max(8)
    .meta(atomic)
    .describe('How the VM and others are spread over places.'),
} as const;

function opaque<T>(): z.ZodType<T, T> {
  return z.looseObject({}).meta({ 'x-kubernetes-preserve-unknown-fields': true }) as unknown as z.ZodType<
    T,
    T
  >;
}
