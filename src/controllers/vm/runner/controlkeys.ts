import type { KeyObject } from 'node:crypto';
import type { Secret } from '../../../api/core.ts';
import { namespaces, objectNames } from '../../../api/meta.ts';
import { secrets, typeMeta } from '../../../api/resources.ts';
import { createControlKey, encodePublicKey, readControlKeys } from '../../../runnerapi/token.ts';
import { type Controller, createController } from '../../../controller/controller.ts';
import type { Informers } from '../../../controller/informers.ts';
import type { Runtime } from '../../../controller/runtime.ts';
import { ensureObject } from '../../../kube/ensure.ts';
import { isSvc3Error, Svc3Error } from '../../../errors.ts';
import type { Informer, KubeClient, Log } from '../../../kube/types.ts';
import type { Submitted } from '../../../api/object.ts';

/** The installation's Ed25519 keys: entry `current` signs, `previous` is still accepted during a rotation. */
export interface ControlKeys {
  /** Makes the Secret where there is none. Only the leader does. */
  ensure(): Promise<void>;
  /**
   * Gives a Secret of which no key can be read another: nobody can sign with what it has, so no more ends by that than has already. An entry
   * that holds none beside one that does is reported and left alone. Only the leader does.
   *
   * @throws Conflict where somebody has written it meanwhile; what refused the write, with what to do, where it cannot be written
   */
  mend(): Promise<void>;
  signingKey(): KeyObject | undefined;
  /** Public halves, the signing one first: text of the annotation `svc3.dev/control-keys`. */
  publicKeys(): string;
}

const key = { name: objectNames.controlKeySecret, namespace: namespaces.system };
const secretName = `Secret ${key.namespace}/${key.name}`;

/** The Secret that the keys are in, and no other. */
export function controlKeySecrets(informers: Informers): Informer<Secret> {
  return informers.get(secrets, { namespace: key.namespace, fieldSelector: `metadata.name=${key.name}` });
}

export function createControlKeys(
  client: KubeClient,
  informer: Informer<Secret>,
  log: Pick<Log, 'warn'>,
): ControlKeys {
  let made: Secret | undefined;
  let read: { version: string | undefined; keys: KeyObject[]; publicKeys: string } | undefined;

  function known(): NonNullable<typeof read> {
    const secret = informer.get(key.name, key.namespace) ?? made;
    const version = secret?.metadata.resourceVersion;
    if (read === undefined || read.version !== version) {
      const { keys } = readControlKeys(secret?.data);
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
    async mend() {
      const secret = informer.get(key.name, key.namespace);
      if (secret === undefined) return;
      const { keys, unreadable } = readControlKeys(secret.data);
      if (keys.length === 0) {
        await replaceKeys(client, secret);
        log.warn({}, `no key could be read from ${secretName}: it has another now`);
        return;
      }
      for (const entry of unreadable)
        log.warn({}, `entry ${entry} of ${secretName} is no Ed25519 key as PKCS#8 PEM and is left out`);
    },
    signingKey: () => known().keys[0],
    publicKeys: () => known().publicKeys,
  };
}

/** Has keys made again when somebody deletes or spoils them: without any the api reaches no runner. To be made before the informers run. */
export function createControlKeyController(
  { informers, log, gate, metrics }: Pick<Runtime, 'informers' | 'log' | 'gate' | 'metrics'>,
  keys: Pick<ControlKeys, 'ensure' | 'mend'>,
): Controller {
  const controller = createController({
    name: 'controlkey',
    workers: 1,
    log,
    gate,
    metrics: metrics.controllers,
    async reconcile() {
      await keys.ensure();
      await keys.mend();
    },
  });
  controlKeySecrets(informers).onChange(({ kind, object }) => {
    if (kind === 'deleted' || !isSound(object)) controller.enqueue(`${key.namespace}/${key.name}`);
  });
  return controller;
}

function isSound({ data }: Secret): boolean {
  const { keys, unreadable } = readControlKeys(data);
  return keys.length > 0 && unreadable.length === 0;
}

/** What else lies in the Secret stays, and somebody who mends it at the same time is not overwritten. */
async function replaceKeys(client: KubeClient, { metadata }: Secret): Promise<void> {
  const { uid, resourceVersion } = metadata;
  const data = { current: newKey(), previous: null };
  try {
    await client.patch(secrets, key, { type: 'merge', body: { metadata: { uid, resourceVersion }, data } });
  } catch (error) {
    if (!isSvc3Error(error, 'Invalid', 'Forbidden')) throw error;
    const message = `no key can be read from ${secretName}, and it cannot be given another: ${error.message}; delete it, and the operator makes it anew`;
    throw new Svc3Error(error.reason, message, { cause: error });
  }
}

/** A private key as the Secret has it. */
function newKey(): string {
  const pem = createControlKey().privateKey.export({ type: 'pkcs8', format: 'pem' });
  return Buffer.from(pem).toString('base64');
}

function newSecret(): Submitted<Secret> {
  return {
    ...typeMeta(secrets),
    metadata: { ...key, labels: { 'app.kubernetes.io/part-of': 'svc3' } },
    type: 'Opaque',
    data: { current: newKey() },
  };
}
