import * as z from 'zod';
import { nodeItem } from '../../wire/schemas.ts';

const metadata = z.object({ name: z.string(), namespace: z.string() });

/** A node as an object of the aggregated API. */
export const nodeObject = z
  .object({ apiVersion: z.string(), kind: z.literal('Node'), metadata })
  .extend(nodeItem.omit({ name: true, namespace: true }).shape)
  .describe('A node as VMs of a namespace see it: what is free on it, and what it is good for.');

export const nodeList = z.object({
  apiVersion: z.string(),
  kind: z.literal('NodeList'),
  metadata: z.object({}),
  items: z.array(nodeObject),
});
