import { z } from 'zod';
import { flag } from '../../config.ts';

/** Chart value `gpuPassthrough.towerCards`: PCI ids of the D500-class cards, comma-separated. Empty: no card counts as one. */
export const towerCards = z
  .string()
  .default('')
  .transform((text) =>
    text
      .toLowerCase()
      .split(',')
      .map((id) => id.trim())
      .filter((id) => id !== ''),
  )
  .pipe(z.array(z.string().regex(/^[0-9a-f]{4}:[0-9a-f]{4}$/, 'must be vendor:device, e.g. 1002:679e')));

/** Chart value `nodeAgent.nodeSelector`, as JSON; null where its key is left empty. */
const nodeSelector = z
  .string()
  .default('{}')
  .transform((text, context) => {
    try {
      return (JSON.parse(text) as unknown) ?? {};
    } catch {
      context.addIssue({ code: 'custom', message: 'must be JSON' });
      return z.NEVER;
    }
  })
  .pipe(z.record(z.string(), z.string()));

/** Settings of the node controller, as the chart writes them; `SVC3_GPU_PASSTHROUGH_ENABLED` is shared with VMs. */
export const nodeSettings = {
  SVC3_GPU_TOWER_CARDS: towerCards,
  SVC3_NODE_AGENT_ENABLED: flag(true),
  SVC3_NODE_AGENT_NODE_SELECTOR: nodeSelector,
};

export interface NodeSettings {
  /** Chart value `gpuPassthrough.enabled` (spec: GPU passthrough rule 3). */
  readonly gpuPassthroughEnabled: boolean;
  readonly towerCards: readonly string[];
  /** Chart value `nodeAgent.enabled`: where it is false, what stands on Nodes of their hardware is of an agent that is gone. */
  readonly nodeAgentEnabled: boolean;
  /** Labels of the Nodes that have an agent; what stands on others is of one that is gone, too. */
  readonly nodeAgentSelector: Readonly<Record<string, string>>;
}

export function nodeSettingsOf(environment: {
  SVC3_GPU_PASSTHROUGH_ENABLED: boolean;
  SVC3_GPU_TOWER_CARDS: readonly string[];
  SVC3_NODE_AGENT_ENABLED: boolean;
  SVC3_NODE_AGENT_NODE_SELECTOR: Readonly<Record<string, string>>;
}): NodeSettings {
  return {
    gpuPassthroughEnabled: environment.SVC3_GPU_PASSTHROUGH_ENABLED,
    towerCards: environment.SVC3_GPU_TOWER_CARDS,
    nodeAgentEnabled: environment.SVC3_NODE_AGENT_ENABLED,
    nodeAgentSelector: environment.SVC3_NODE_AGENT_NODE_SELECTOR,
  };
}
