import { Architecture, vmSettings } from '../api/vmconfig.ts';

/** Settings that requests take as the kinds have them: their schemas are the kinds' own, so they can say all of it. */
export const kindSettings = {
  architecture: Architecture.optional().describe("Architecture of the guest; absent: the image's."),
  disk: vmSettings.disk,
  suspendTo: vmSettings.suspendTo,
  onEviction: vmSettings.onEviction,
  priorityClassName: vmSettings.priorityClassName,
  readiness: vmSettings.readiness,
  tolerations: vmSettings.tolerations,
  affinity: vmSettings.affinity,
  topologySpreadConstraints: vmSettings.topologySpreadConstraints,
  userData: vmSettings.userData,
} as const;
