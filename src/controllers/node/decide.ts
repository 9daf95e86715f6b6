import type { Node } from '../../api/core.ts';
import { readHardware } from '../../api/hardware.ts';
import { annotations, labels, nodeConditions } from '../../api/meta.ts';
import type { GpuFault } from './gpufault.ts';
import { bundleOf, whyNotQualified } from './hardware.ts';
import type { NodeSettings } from './settings.ts';

/** How a Node's label and reason are to be. */
export interface NodeVerdict {
  /** Label `svc3.dev/gpu-passthrough=enabled`. */
  readonly isEnabled: boolean;
  /**
   * Annotation `svc3.dev/gpu-passthrough-reason`: why not, or what an enabled node lacks. Undefined where there is
   * nothing to say.
   */
  readonly reason: string | undefined;
  /** Annotation `svc3.dev/hardware` goes: whoever wrote it is gone, and the hardware may be another by now. */
  readonly forgetsHardware?: boolean;
}

/** Changes to a Node; a key with null is taken away. */
export interface NodePatch {
  readonly labels?: Readonly<Record<string, string | null>>;
  readonly annotations?: Readonly<Record<string, string | null>>;
}

const enabled = 'enabled';

/** Everybody who may list nodes reads it: it tells nothing of whose VM that is. */
const unusable = `not usable now: a VM cannot use the GPUs (condition ${nodeConditions.gpuUnavailable})`;

/**
 * Whether x86 VMs may use the node's GPUs: the cluster has it on, the administrator enabled the node, and its hardware
 * qualifies (spec: GPU passthrough rules 3 and 5). A fault only adds to the reason: it goes away, or its VM does.
 */
export function decideNode(node: Node, settings: NodeSettings, fault?: GpuFault): NodeVerdict {
  const verdict = decideGpus(node, settings, fault);
  return whyNoAgent(node, settings) === undefined ? verdict : { ...verdict, forgetsHardware: true };
}

/** Why no agent of this installation looks at the hardware of the node. Taints and affinity keep one away, too: who sets those takes off by hand what is old. */
function whyNoAgent(node: Node, { nodeAgentEnabled, nodeAgentSelector }: NodeSettings): string | undefined {
  if (!nodeAgentEnabled)
    return 'no node agent looks at the hardware in this cluster (chart value nodeAgent.enabled)';
  const isSelected = Object.entries(nodeAgentSelector).every(
    ([key, value]) => node.metadata.labels?.[key] === value,
  );
  return isSelected
    ? undefined
    : 'no node agent looks at the hardware of this node (chart value nodeAgent.nodeSelector)';
}

function decideGpus(node: Node, settings: NodeSettings, fault: GpuFault | undefined): NodeVerdict {
  const architecture =
    node.metadata.labels?.['kubernetes.io/arch'] ?? node.status?.nodeInfo?.architecture ?? 'amd64';
  // Rule 1: always on, nothing to enable.
  if (architecture === 'arm64') return { isEnabled: false, reason: undefined };
  if (!settings.gpuPassthroughEnabled)
    return no('GPU passthrough is off in this cluster (chart value gpuPassthrough.enabled)');
  const unseen = whyNoAgent(node, settings);
  if (unseen !== undefined) return no(unseen);
  const reading = readHardware(node.metadata.annotations?.[annotations.hardware]);
  const unfit = reading.kind === 'hardware' ? whyNotQualified(reading.hardware, settings) : undefined;
  if (unfit !== undefined) return no(`the hardware does not qualify: ${unfit}`);
  const refusal = whyNotAllowed(node);
  if (refusal !== undefined) return no(refusal);
  if (reading.kind === 'unreadable') return no(reading.message);
  // The host's hardware would never qualify as an ARM one, but an annotation can say anything.
  if (reading.hardware.architecture !== 'amd64')
    return no(`the hardware annotation is of an ${reading.hardware.architecture} machine`);
  const bundle = bundleOf(reading.hardware, settings);
  if (bundle.kind === 'none') return { isEnabled: true, reason: `not usable yet: ${bundle.reason}` };
  return { isEnabled: true, reason: fault === undefined ? undefined : unusable };
}

function no(reason: string): NodeVerdict {
  return { isEnabled: false, reason };
}

/** Rule 3: enabled by the operator of the cluster. */
function whyNotAllowed(node: Node): string | undefined {
  const value = node.metadata.labels?.[labels.allowGpuPassthrough];
  if (value === 'true') return undefined;
  const name = node.metadata.name;
  if (value === undefined || value === 'false')
    return `the node is not enabled for GPU passthrough (svc3 node gpu enable ${name})`;
  return `label ${labels.allowGpuPassthrough} is "${value}" and only "true" enables the node (svc3 node gpu enable ${name})`;
}

/** What is to be changed on the Node; undefined where it is as it should be. */
export function nodePatch(node: Node, verdict: NodeVerdict): NodePatch | undefined {
  const label = verdict.isEnabled ? enabled : null;
  const present = node.metadata.annotations ?? {};
  const wanted = {
    [annotations.gpuPassthroughReason]: verdict.reason ?? null,
    ...(verdict.forgetsHardware === true ? { [annotations.hardware]: null } : {}),
  };
  const changed = Object.entries(wanted).filter(([key, value]) => (present[key] ?? null) !== value);
  const isLabelRight = (node.metadata.labels?.[labels.gpuPassthrough] ?? null) === label;
  if (isLabelRight && changed.length === 0) return undefined;
  return {
    ...(isLabelRight ? {} : { labels: { [labels.gpuPassthrough]: label } }),
    ...(changed.length === 0 ? {} : { annotations: Object.fromEntries(changed) }),
  };
}

/** Whether the Node carries the label as the operator writes it. */
export function isLabelled(node: Node): boolean {
  return node.metadata.labels?.[labels.gpuPassthrough] === enabled;
}
