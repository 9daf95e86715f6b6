import type { z } from 'zod';
import type { KubeObject, Resource } from './object.ts';
import { ImageSpec, ImageStatus, IsoSpec } from './image.ts';
import { diskNamePattern, limits } from './meta.ts';
import { RegistryCredentialSpec, RegistryCredentialStatus } from './registrycredential.ts';
import { registryNameRule } from './registryname.ts';
import { images, isos, registryCredentials, vmConfigs, vmPools, vms } from './resources.ts';
import type { Rule } from './rule.ts';
import { VmSpec, VmStatus } from './vm.ts';
import { changeRules } from './vmchanges.ts';
import { VmConfigSpec, VmConfigStatus } from './vmconfig.ts';
import { VmPoolSpec, VmPoolStatus } from './vmpool.ts';

interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'date' | 'boolean';
  readonly jsonPath: string;
  readonly description: string;
  /** 1: only with `-o wide`. */
  readonly priority?: 1;
}

/** One kind as the CustomResourceDefinition is made from it. */
export interface Definition {
  readonly resource: Resource<KubeObject>;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly description: string;
  readonly nameLength: number;
  readonly rules: readonly Rule[];
  readonly spec: z.ZodType;
  readonly status: z.ZodType;
  readonly columns: readonly PrinterColumn[];
  /** The scale subresource, for kubectl scale and autoscalers. */
  readonly scale?: { readonly spec: string; readonly status: string; readonly selector: string };
}

function condition(type: string, field: 'status' | 'reason'): string {
  return `.status.conditions[?(@.type=="${type}")].${field}`;
}

/** A setting in force, or the one that a VM gets that has not been placed. */
const resolved = (field: string): string => `.status['effective','planned'].${field}`;

const age: PrinterColumn = {
  name: 'Age',
  type: 'date',
  jsonPath: '.metadata.creationTimestamp',
  description: 'Time since creation.',
};

const ready: PrinterColumn = {
  name: 'Ready',
  type: 'string',
  jsonPath: condition('Ready', 'status'),
  description: 'Whether the object is as requested.',
};

const reason: PrinterColumn = {
  name: 'Reason',
  type: 'string',
  jsonPath: condition('Ready', 'reason'),
  description: 'Why it is ready, or why not.',
};

function dns1035Rule(kind: string, length: number): Rule {
  return {
    rule: `self.metadata.name.matches('^[a-z]([-a-z0-9]{0,${length - 2}}[a-z0-9])?$')`,
    message: `the name of a ${kind} has at most ${length} characters a-z, 0-9 and -, begins with a letter and ends with a letter or digit`,
    fieldPath: '.metadata.name',
  };
}

function repositoryRule(kind: string, length: number): Rule {
  return {
    rule: `self.metadata.name.matches('${diskNamePattern.source}') && size(self.metadata.name) <= ${length}`,
    message: `the name of an ${kind} has at most ${length} characters a-z, 0-9, - and . with no two signs side by side`,
    fieldPath: '.metadata.name',
  };
}

const imageColumns: readonly PrinterColumn[] = [
  ready,
  reason,
  {
    name: 'Progress',
    type: 'integer',
    jsonPath: '.status.progress',
    description: 'How far the work is, in percent.',
  },
  { name: 'Size', type: 'string', jsonPath: '.status.size', description: 'Virtual size.' },
  {
    name: 'Architecture',
    type: 'string',
    jsonPath: '.status.architecture',
    description: 'Architecture of the disk.',
    priority: 1,
  },
  {
    name: 'Digest',
    type: 'string',
    jsonPath: '.status.digest',
    description: 'Digest in the store.',
    priority: 1,
  },
  {
    name: 'Description',
    type: 'string',
    jsonPath: '.spec.description',
    description: 'Free text.',
    priority: 1,
  },
  age,
];

/** Every kind of the API group, in the order of `crds/`. */
export const definitions: readonly Definition[] = [
  {
    resource: vms,
    singular: 'vm',
    shortNames: ['svm'],
    description: 'A VM is one virtual machine that runs in a pod of this namespace.',
    nameLength: limits.nameLength,
    rules: [dns1035Rule('VM', limits.nameLength), ...changeRules],
    spec: VmSpec,
    status: VmStatus,
    columns: [
      {
        name: 'Power',
        type: 'string',
        jsonPath: '.status.powerState',
        description: 'The power state that was observed.',
      },
      ready,
      reason,
      { name: 'Node', type: 'string', jsonPath: '.status.node', description: 'Node the VM runs on.' },
      { name: 'IP', type: 'string', jsonPath: '.status.ip', description: "The node's address." },
      {
        name: 'SSH',
        type: 'integer',
        jsonPath: '.status.ports.ssh',
        description: 'Port of the node that leads to SSH.',
      },
      {
        name: 'Config',
        type: 'string',
        jsonPath: '.spec.config',
        description: 'The VMConfig it takes settings from.',
        priority: 1,
      },
      {
        name: 'CPU',
        type: 'integer',
        jsonPath: resolved('cpu'),
        description: 'Virtual CPUs.',
        priority: 1,
      },
      {
        name: 'Memory',
        type: 'string',
        jsonPath: resolved('memory'),
        description: 'Memory of the guest.',
        priority: 1,
      },
      {
        name: 'GPU',
        type: 'string',
        jsonPath: resolved('gpuPassthrough'),
        description: 'GPU passthrough in force.',
        priority: 1,
      },
      {
        name: 'VNC',
        type: 'integer',
        jsonPath: '.status.ports.vnc',
        description: 'Port of the node that shows the console.',
        priority: 1,
      },
      {
        name: 'Image',
        type: 'string',
        jsonPath: resolved('image'),
        description: 'Image with its digest.',
        priority: 1,
      },
      age,
    ],
  },
  {
    resource: vmConfigs,
    singular: 'vmconfig',
    shortNames: ['svmc'],
    description:
      'A VMConfig holds the settings that VMs naming it take over where they say nothing themselves.',
    nameLength: limits.configNameLength,
    rules: [dns1035Rule('VMConfig', limits.configNameLength)],
    spec: VmConfigSpec,
    status: VmConfigStatus,
    columns: [
      ready,
      reason,
      { name: 'Image', type: 'string', jsonPath: '.spec.image', description: 'Disk image.' },
      { name: 'CPU', type: 'integer', jsonPath: '.spec.cpu', description: 'Virtual CPUs.' },
      { name: 'Memory', type: 'string', jsonPath: '.spec.memory', description: 'Memory of the guest.' },
      { name: 'GPU', type: 'string', jsonPath: '.spec.gpuPassthrough', description: 'GPU passthrough.' },
      {
        name: 'Architecture',
        type: 'string',
        jsonPath: '.spec.architecture',
        description: 'Architecture.',
        priority: 1,
      },
      {
        name: 'Tag',
        type: 'string',
        jsonPath: '.spec.tag',
        description: 'Tag of the nodes it prefers.',
        priority: 1,
      },
      age,
    ],
  },
  {
    resource: registryCredentials,
    singular: 'registrycredential',
    shortNames: ['regcred'],
    description:
      'A RegistryCredential names a private OCI registry whose images this namespace may pull. Its name is <host>.<port>, so that there is one for each registry and namespace.',
    nameLength: 253,
    rules: [registryNameRule],
    spec: RegistryCredentialSpec,
    status: RegistryCredentialStatus,
    columns: [
      { name: 'Server', type: 'string', jsonPath: '.spec.server', description: 'Address of the registry.' },
      {
        name: 'Insecure',
        type: 'boolean',
        jsonPath: '.spec.allowInsecure',
        description: 'Whether its identity is not verified.',
      },
      ready,
      reason,
      {
        name: 'Secret',
        type: 'string',
        jsonPath: '.spec.secretRef.name',
        description: 'Secret in svc3-credentials.',
        priority: 1,
      },
      age,
    ],
  },
  {
    resource: images,
    singular: 'image',
    shortNames: [],
    description: 'An Image is one disk in the store, made from the source that it names.',
    nameLength: limits.nameLength,
    rules: [repositoryRule('Image', limits.nameLength)],
    spec: ImageSpec,
    status: ImageStatus,
    columns: imageColumns,
  },
  {
    resource: isos,
    singular: 'iso',
    shortNames: [],
    description: 'An ISO is one install medium in the store, made from the source that it names.',
    nameLength: limits.nameLength,
    rules: [repositoryRule('ISO', limits.nameLength)],
    spec: IsoSpec,
    status: ImageStatus,
    columns: imageColumns,
  },
  {
    resource: vmPools,
    singular: 'vmpool',
    shortNames: ['svmp'],
    description: 'A VMPool keeps guests that have booted already, for VMs that name the pool.',
    nameLength: limits.poolNameLength,
    rules: [dns1035Rule('VMPool', limits.poolNameLength)],
    spec: VmPoolSpec,
    status: VmPoolStatus,
    columns: [
      ready,
      reason,
      { name: 'Min', type: 'integer', jsonPath: '.spec.minIdle', description: 'Guests that are to wait.' },
      { name: 'Idle', type: 'integer', jsonPath: '.status.idle', description: 'Guests that wait.' },
      {
        name: 'Preparing',
        type: 'integer',
        jsonPath: '.status.preparing',
        description: 'Guests that are being booted.',
      },
      { name: 'Claimed', type: 'integer', jsonPath: '.status.claimed', description: 'VMs of the pool.' },
      {
        name: 'Config',
        type: 'string',
        jsonPath: '.spec.template.config',
        description: 'The VMConfig of the template.',
        priority: 1,
      },
      age,
    ],
    scale: { spec: '.spec.minIdle', status: '.status.idle', selector: '.status.selector' },
  },
];
