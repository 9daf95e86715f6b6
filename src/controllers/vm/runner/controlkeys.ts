import type { KeyObject } from 'node:crypto';
import type { Secret } from '../../../api/core.ts';
import { namespaces, objectNames } from '../../../api/meta.ts';
import { secrets, typeMeta } from '../../../api/resources.ts';
import { createControlKey, encodePublicKey, readPrivateKey } from '../../../runnerapi/token.ts';
import { type Controller, createController } from '../../../controller/controller.ts';
import type { Informers } from '../../../controller/informers.ts';
import type { Runtime } from '../../../controller/runtime.ts';
import { ensureObject } from '../../../kube/ensure.ts';
import type { Informer, KubeClient } from '../../../kube/types.ts';
import type { Submitted } from '../../../api/object.ts';

/** The installation's Ed25519 keys: entry `current` signs, `previous` is still accepted during a rotation. */
export interface ControlKeys {
  /** Makes the Secret where there is none. Only the leader does. */
  ensure(): Promise<void>;
  signingKey(): KeyObject | undefined;
  /** Public halves, the signing one first: text of the annotation `svc3.dev/control-keys`. */
  publicKeys(): string;
}

const entries = ['current', 'previous'] as const;

const key = { name: objectNames.controlKeySecret, namespace: namespaces.system };

/** The Secret that the keys are in, and no other. */
export function controlKeySecrets(informers: Informers): Informer<Secret> {
  return informers.get(secrets, { namespace: key.namespace, fieldSelector: `metadata.name=${key.name}` });
}

export function createControlKeys(client: KubeClient, informer: Informer<Secret>): ControlKeys {
  let made: Secret | undefined;
  let read: { version: string | undefined; keys: KeyObject[]; publicKeys: string } | undefined;

  function known(): NonNullable<typeof read> {
    const secret = informer.get(key.name, key.namespace) ?? made;
    const version = secret?.metadata.resourceVersion;
    if (read === undefined || read.version !== version) {
      const keys = keysOf(secret);
      read = { version, keys, publicKeys: keys.map(encodePublicKey).join(',') };
    }
    return read;
  }

  return {
    async ensure() {
      if (informer.get(key.name, key.namespace) !== undefined) return;
      // A leader that was slow to learn that it is none must not replace the keys of its successor.
      made = await ensureObject(client, secrets, key, newSecret);
    },
    signingKey: () => known().keys[0],
    publicKeys: () => known().publicKeys,
  };
}

/** Has keys made again when somebody deletes them: without any the api reaches no runner. To be made before the informers run. */
export function createControlKeyController(
  { informers, log, gate, metrics }: Pick<Runtime, 'informers' | 'log' | 'gate' | 'metrics'>,
  keys: Pick<ControlKeys, 'ensure'>,
): Controller {
  const controller = createController({
    name: 'controlkey',
    workers: 1,
    log,
    gate,
    metrics: metrics.controllers,
    reconcile: () => keys.ensure(),
  });
  controlKeySecrets(informers).onChange(({ kind }) => {
    if (kind === 'deleted') controller.enqueue(`${key.namespace}/${key.name}`);
  });
  return controller;
}

function keysOf(secret: Secret | undefined): KeyObject[] {
  return entries.flatMap((entry) => {
    const text = secret?.data?.[entry];
    return text === undefined ? [] : [readPrivateKey(Buffer.from(text, 'base64').toString('utf8'))];
  });
}

function newSecret(): Submitted<Secret> {
  const pem = createControlKey().privateKey.export({ type: 'pkcs8', format: 'pem' });
  return {
    ...typeMeta(secrets),
    metadata: { ...key, labels: { 'app.kubernetes.io/part-of': 'svc3' } },
    type: 'Opaque',
    data: { current: Buffer.from(pem).toString('base64') },
  };
}
