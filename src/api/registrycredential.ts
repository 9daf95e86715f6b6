import { z } from 'zod';
import type { KubeObject, NamespacedMeta } from './object.ts';
import { Conditions, ObservedGeneration } from './condition.ts';
import { rules } from './rule.ts';

/** The sentence for an http server without allowInsecure, the same in kubectl, CLI and HTTP. */
export const allowInsecureRequired = 'must be true for an http:// server';

export const RegistryCredentialSpec = z
  .object({
    server: z
      .string()
      .min(1)
      .max(280)
      .regex(/^https?:\/\/([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(:[1-9][0-9]{0,4})?$/)
      .describe(
        'Address of the registry: scheme, host and optionally a port, e.g. https://registry.example.com:5000. No path, no trailing slash.',
      ),
    allowInsecure: z
      .boolean()
      .default(false)
      .describe('Must be true for http://. With https:// it means that the certificate is not verified.'),
    secretRef: z
      .object({
        name: z
          .string()
          .min(1)
          .max(253)
          .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/)
          .describe('Name of a Secret of type kubernetes.io/basic-auth in namespace svc3-credentials.'),
      })
      .describe('Where user name and password are kept.'),
  })
  .meta(
    rules([
      {
        rule: "!self.server.startsWith('http://') || self.allowInsecure",
        message: allowInsecureRequired,
        fieldPath: '.allowInsecure',
      },
      {
        rule: "!self.server.matches(':(6[6-9]|65[6-9]|655[4-9]|6553[6-9]|[7-9][0-9])[0-9]*$') || !self.server.matches(':[0-9]{5}$')",
        message: 'the port must be between 1 and 65535',
        fieldPath: '.server',
      },
      {
        rule: "!self.server.contains('[') || self.server.matches('//\\\\[([0-9a-f]{4}:){7}[0-9a-f]{4}\\\\]')",
        message:
          'an IPv6 address is written in full and in lower case, e.g. https://[2001:0db8:0000:0000:0000:0000:0000:0001]',
        fieldPath: '.server',
      },
    ]),
  )
  .describe('One registry and where its credential is kept.');
export type RegistryCredentialSpec = z.infer<typeof RegistryCredentialSpec>;

export const RegistryCredentialStatus = z
  .object({
    observedGeneration: ObservedGeneration.optional(),
    conditions: Conditions.optional(),
    registry: z
      .string()
      .max(280)
      .optional()
      .describe('The registry as image references name it: host, and port where it is not 443.'),
  })
  .describe('What svc3 knows about the credential.');
export type RegistryCredentialStatus = z.infer<typeof RegistryCredentialStatus>;

export interface RegistryCredential extends KubeObject {
  metadata: NamespacedMeta;
  spec: RegistryCredentialSpec;
  status?: RegistryCredentialStatus;
}
