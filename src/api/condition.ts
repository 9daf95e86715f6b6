import { z } from 'zod';
import type { Condition as KubeCondition } from './object.ts';
import { asAWhole } from './rule.ts';

/** Characters of a condition's message that kube-apiserver takes. */
export const longestMessage = 32_768;

/** metav1.Condition, bounded as Kubernetes bounds it. */
const Condition = z
  .object({
    type: z
      .string()
      .min(1)
      .max(64)
      .regex(/^[A-Z][A-Za-z]*$/)
      .describe('Name of the condition in PascalCase.'),
    status: z.enum(['True', 'False', 'Unknown']).describe('Whether the condition holds.'),
    observedGeneration: z
      .int()
      .min(0)
      .max(Number.MAX_SAFE_INTEGER)
      .meta({ format: 'int64' })
      .optional()
      .describe('The metadata.generation of the object that this condition was made for.'),
    lastTransitionTime: z
      .string()
      .max(64)
      .meta({ format: 'date-time' })
      .describe('When the status last changed.'),
    reason: z
      .string()
      .min(1)
      .max(64)
      .regex(/^[A-Z][A-Za-z0-9]*$/)
      .describe('Why, in one PascalCase word; all of them are listed in docs/conditions.md.'),
    message: z.string().max(longestMessage).describe('Why, in a sentence for people; may be empty.'),
  })
  .meta(asAWhole);

/** Conditions of an object: a list keyed by `type`, so that several writers can own their own rows, each as a whole. */
export const Conditions = z
  .array(Condition)
  .max(16)
  .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['type'] })
  .describe('What is known about the object, one row per question.') as unknown as z.ZodType<
  KubeCondition[],
  KubeCondition[]
>;

export const ObservedGeneration = z
  .int()
  .min(0)
  .max(Number.MAX_SAFE_INTEGER)
  .meta({ format: 'int64' })
  .describe('The metadata.generation that this status was made for.');
