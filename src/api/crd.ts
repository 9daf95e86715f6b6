import type { CustomResourceDefinition } from './core.ts';
import { definitions, type Definition } from './definitions.ts';
import { category, labels } from './meta.ts';
import { structuralSchema, type JsonSchema } from './structural.ts';
import type { Submitted } from './object.ts';

/**
 * The status of an object that svc3 has not looked at yet. Tools that follow kstatus take an object without a status for one that is as it
 * should be; a generation that was not observed tells them to wait.
 */
const unobserved = { observedGeneration: 0 } as const;

function rootSchema(definition: Definition): JsonSchema {
  return {
    type: 'object',
    description: definition.description,
    required: ['spec'],
    'x-kubernetes-validations': definition.rules,
    properties: {
      apiVersion: {
        type: 'string',
        description: `Version of the schema: ${definition.resource.group}/${definition.resource.version}.`,
      },
      kind: { type: 'string', description: `Kind of the object: ${definition.resource.kind}.` },
      // A bound for the name keeps the estimated cost of the CEL rules small.
      metadata: { type: 'object', properties: { name: { type: 'string', maxLength: 253 } } },
      spec: structuralSchema(definition.spec),
      status: { ...structuralSchema(definition.status), default: unobserved },
    },
  };
}

function customResourceDefinition(definition: Definition): Submitted<CustomResourceDefinition> {
  const { resource } = definition;
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: {
      name: `${resource.plural}.${resource.group}`,
      labels: { [labels.name]: 'svc3', [labels.component]: 'crd', [labels.partOf]: 'svc3' },
      // Uninstalling the chart must not delete every VM of the cluster.
      annotations: {
        'helm.sh/resource-policy': 'keep',
        'argocd.argoproj.io/sync-options': 'Prune=false',
      },
    },
    spec: {
      group: resource.group,
      scope: 'Namespaced',
      names: {
        kind: resource.kind,
        listKind: `${resource.kind}List`,
        plural: resource.plural,
        singular: definition.singular,
        ...(definition.shortNames.length === 0 ? {} : { shortNames: [...definition.shortNames] }),
        categories: [category],
      },
      versions: [
        {
          name: resource.version,
          served: true,
          storage: true,
          subresources: {
            status: {},
            ...(definition.scale === undefined
              ? {}
              : {
                  scale: {
                    specReplicasPath: definition.scale.spec,
                    statusReplicasPath: definition.scale.status,
                    labelSelectorPath: definition.scale.selector,
                  },
                }),
          },
          additionalPrinterColumns: [...definition.columns],
          schema: { openAPIV3Schema: rootSchema(definition) },
        },
      ],
    },
  };
}

/** The CustomResourceDefinitions of all kinds, as `crds/` holds them. */
export function customResourceDefinitions(): Submitted<CustomResourceDefinition>[] {
  return definitions.map(customResourceDefinition);
}
