/** Reads every disk that is reported as saved, as soon as it is. */
import type { Image } from '../../../src/api/image.ts';
import type { Markers } from '../workload/markers.ts';
import { checkDisk } from './contents.ts';
import { type History, sightsOf } from './history.ts';
import type { RunLog } from './log.ts';
import type { Recorder } from './recorder.ts';
import type { StoreFolder } from './store.ts';

export interface SavedDisksOptions {
  readonly recorder: Recorder;
  readonly history: History;
  readonly markers: Markers;
  readonly store: StoreFolder;
  readonly log: RunLog;
}

interface Wanted {
  readonly namespace: string;
  readonly image: string;
  readonly digest: string;
  readonly marker: string | undefined;
}

export class SavedDisks {
  readonly #options: SavedDisksOptions;
  readonly #known = new Set<string>();
  #work: Promise<void> = Promise.resolve();

  constructor(options: SavedDisksOptions) {
    this.#options = options;
    options.recorder.onSight(({ resource, type, object }) => {
      if (resource === 'images' && type !== 'DELETED') this.#look(object as Image);
    });
  }

  /** Resolves when everything that was seen has been read. */
  async done(): Promise<void> {
    await this.#work;
  }

  #look({ metadata, status }: Image): void {
    const isReady = status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
    const { namespace, name, uid } = metadata;
    const digest = status?.digest;
    if (isReady !== true || digest === undefined || metadata.deletionTimestamp !== undefined) return;
    const key = `${uid}@${digest}`;
    if (this.#known.has(key)) return;
    this.#known.add(key);
    const wanted = { namespace, image: name, digest, marker: this.#markerOf(namespace, name) };
    this.#work = this.#work.then(() => this.#read(wanted));
  }

  /** Of the last save or commit that was asked for; undefined where the disk may have changed since. */
  #markerOf(namespace: string, image: string): string | undefined {
    const { history, markers } = this.#options;
    const asked = history.operations.filter(
      (each) =>
        (each.verb === 'save' || each.verb === 'commit') &&
        each.namespace === namespace &&
        each.image === image &&
        each.outcome !== 'refused',
    );
    const { marker, vmUid } = asked.at(-1) ?? {};
    // Of two commits nobody knows which one this version is of.
    if (marker === undefined || asked.length > 1) return undefined;
    return markers.holds(marker, this.#podsOf(vmUid)) ? marker : undefined;
  }

  #podsOf(vmUid: string | undefined): string[] {
    const pods = sightsOf(this.#options.history, 'pods').filter(({ object }) =>
      object.metadata.ownerReferences?.some(({ uid }) => uid === vmUid),
    );
    return [...new Set(pods.map(({ object }) => object.metadata.uid ?? ''))];
  }

  async #read({ namespace, image, digest, marker }: Wanted): Promise<void> {
    const { store, history, log } = this.#options;
    const problem = await checkDisk(store, digest, marker);
    // Who deletes an image takes its blobs away at any time.
    const isGone = problem !== undefined && !this.#isThere(namespace, image, digest);
    const check = { at: Date.now(), namespace, image, digest, marker, problem: isGone ? undefined : problem };
    history.contents.push(check);
    log.write('contents', isGone ? { ...check, skipped: problem } : check);
  }

  #isThere(namespace: string, image: string, digest: string): boolean {
    return this.#options.recorder
      .current('images', namespace)
      .some(
        ({ metadata, status }) =>
          metadata.name === image && metadata.deletionTimestamp === undefined && status?.digest === digest,
      );
  }
}
