import { isDeepStrictEqual } from 'node:util';
import type { RunnerSpec } from '../api/runner.ts';
import { type HookFailure, type Shared, wokenHook } from './introduction.ts';
import type { WarmStart } from './status.ts';

const fromImage = 'the guest goes on from the memory of its image';

/** What is said of a guest that goes on from the memory of its image. */
export function wokenFromImage(shared: readonly Shared[]): WarmStart {
  const reason = shared.length === 0 ? 'StartedFromMemory' : 'IdentityShared';
  return { fromMemory: true, reason, message: [fromImage, ...shared.map(sentence)].join(', and ') };
}

/** What a guest is told by cloud-init when it boots, and by its hook when it becomes a VM's. */
type Told = Pick<RunnerSpec, 'metadata' | 'sshAuthorizedKeys'>;

/** A guest of a pool that is a VM's now. */
export interface Claimed {
  /** How it was started. */
  readonly before: WarmStart | undefined;
  /** What it was told at its boot, and what its VM would have it know. */
  readonly booted: Told;
  readonly own: Told;
}

/**
 * What is said of a guest of a pool whose hook has not done its work; undefined where nothing is to be said. One that has booted shares nothing with
 * others: that its image has no hook is its owner's choice, as long as there is nothing that it would have told.
 */
export function wokenFromPool(
  { before, booted, own }: Claimed,
  { isStarted, reason }: HookFailure,
): WarmStart | undefined {
  // That it has no agent was said when it went on.
  if (before?.message.includes(sentence({ what: 'identity' })) === true) return undefined;
  if (before?.fromMemory === true)
    return {
      fromMemory: true,
      reason: 'IdentityShared',
      message: `${before.message}, and ${sentence({ what: 'hook', reason })}`,
    };
  const waited = 'the guest waited in a pool under another name';
  if (isStarted)
    return {
      fromMemory: false,
      reason: 'HookFailed',
      message: `${waited}, and its hook ${wokenHook} has failed (${reason}): it may not know its metadata and keys`,
    };
  if (isSame(booted, own)) return undefined;
  return {
    fromMemory: false,
    reason: 'HookFailed',
    message: `${waited}, and has run no hook ${wokenHook} (${reason}): it does not know the metadata and keys of its VM before it boots again`,
  };
}

function isSame(a: Told, b: Told): boolean {
  return (
    isDeepStrictEqual(a.metadata, b.metadata) && isDeepStrictEqual(a.sshAuthorizedKeys, b.sshAuthorizedKeys)
  );
}

/** Goes on from what the guest does. */
function sentence(shared: Shared): string {
  if (shared.what === 'hook')
    return `its hook ${wokenHook} has not done its work (${shared.reason}): its machine-id, SSH host keys and authorized keys may be those of the image`;
  return shared.what === 'identity'
    ? 'has no agent that could be told that it is another VM: its host name, keys and random numbers are those of the image'
    : 'its agent could not make its kernel take new random numbers: for a minute they may be those of other guests from the image';
}
