import { randomUUID } from 'node:crypto';
import { Architecture } from '../../api/vmconfig.ts';
import { Svc3Error, isSvc3Error } from '../../errors.ts';
import { repositoryPathOf, type RepositoryPath } from '../../controllers/image/repositorypath.ts';
import type { NamespaceRegistries } from '../../controllers/image/registries.ts';
import {
  defaultFileBytes,
  defaultUploadExpiryMs,
  type StoreSettings,
} from '../../controllers/image/settings.ts';
import type { RegistryClient } from '../../registry/client.ts';
import {
  appendParts,
  deleteParts,
  giveUpUploads,
  readParts,
  uploadTag,
  writeParts,
  type PartList,
} from '../../registry/parts.ts';
import type { ResumableUploads, UploadState } from '../call/services.ts';
import type { UploadTarget, UploadTargets } from '../../usecases/uploadtarget.ts';
import { withStore } from './storerefusal.ts';
import { fileTooLarge, type UploadLimits } from './filelimit.ts';
import { UploadTurns } from './turns.ts';

/** What is known of an upload beside its bytes, in the annotations of its list of parts. */
const facts = {
  /** Bytes of the whole file. */
  size: 'svc3.dev/upload-size',
  description: 'svc3.dev/upload-description',
  architecture: 'svc3.dev/upload-architecture',
  /** Of the object that waited for it. */
  uid: 'svc3.dev/upload-uid',
  /** Two uploads of the same bytes are two lists: one may be deleted, the other may not. */
  id: 'svc3.dev/upload-id',
} as const;

export interface ResumableUploadOptions extends UploadLimits {
  /** Bytes after which a part is closed. */
  readonly partBytes?: number;
  /** An upload without progress for so long has been given up. */
  readonly expiryMs?: number;
}

type Appended = Parameters<ResumableUploads['append']>[2];

interface Opened {
  readonly client: RegistryClient;
  readonly path: RepositoryPath;
}

/** Where uploads go to, and what takes them. */
interface Parts {
  readonly targets: UploadTargets;
  readonly registries: NamespaceRegistries;
  readonly store: StoreSettings;
}

/** Uploads that are taken up again by any replica: how far they are stands in the store (docs/adr/0009). */
export function createResumableUploads(
  targets: UploadTargets,
  registries: NamespaceRegistries,
  store: StoreSettings,
  options: ResumableUploadOptions = {},
): ResumableUploads {
  return new StoredUploads({ targets, registries, store }, options);
}

class StoredUploads implements ResumableUploads {
  readonly #parts: Parts;
  readonly #partBytes: number | undefined;
  readonly #expiryMs: number;
  readonly #turns: UploadTurns;
  readonly #maxBytes: number;

  constructor(parts: Parts, options: ResumableUploadOptions) {
    const { partBytes, expiryMs = defaultUploadExpiryMs } = options;
    const { turns = new UploadTurns(), maxBytes = defaultFileBytes } = options;
    this.#parts = parts;
    this.#partBytes = partBytes;
    this.#expiryMs = expiryMs;
    this.#turns = turns;
    this.#maxBytes = maxBytes;
  }

  async begin(
    target: UploadTarget,
    { size, length = 0, description, architecture }: Parameters<ResumableUploads['begin']>[1],
  ): Promise<UploadState> {
    if (size !== undefined && size > this.#maxBytes) throw fileTooLarge('Upload-Length', this.#maxBytes);
    if (length > this.#maxBytes) throw fileTooLarge('Content-Length', this.#maxBytes);
    const uid = await this.#parts.targets.look(target, { description, architecture });
    const id = randomUUID();
    const annotations = {
      [facts.id]: id,
      ...(size === undefined ? {} : { [facts.size]: String(size) }),
      ...(description === undefined ? {} : { [facts.description]: description }),
      ...(architecture === undefined ? {} : { [facts.architecture]: architecture }),
      ...(uid === undefined ? {} : { [facts.uid]: uid }),
    };
    return this.#inStore(target, async ({ client, path }) => {
      // Whoever begins anew does not go on with what was before; a registry that does not delete keeps it.
      await giveUpUploads(client, path.repository, Date.now() - this.#expiryMs).catch(() => undefined);
      return stateOf(id, await writeParts(client, partsOf(path, id), { parts: [], annotations }));
    });
  }

  state(target: UploadTarget, id: string): Promise<UploadState> {
    return this.#inStore(target, async (opened) => {
      const list = await this.#listOf(opened, target, id);
      return list === undefined ? { id, offset: 0, isComplete: true } : stateOf(id, list);
    });
  }

  async append(target: UploadTarget, id: string, bytes: Appended): ReturnType<ResumableUploads['append']> {
    const { offset, length = 0 } = bytes;
    if (offset > this.#maxBytes) throw fileTooLarge('Upload-Offset', this.#maxBytes);
    if (offset + length > this.#maxBytes) throw fileTooLarge('Content-Length', this.#maxBytes);
    // How far the upload is is asked when its turn has come: another request may have gone on with it until then.
    return this.#turns.run(bytes, (content) => this.#append(target, id, { ...bytes, content }));
  }

  #append(
    target: UploadTarget,
    id: string,
    { offset, content, isLast, length, isWhole }: Appended,
  ): ReturnType<ResumableUploads['append']> {
    return this.#inStore(target, async (opened) => {
      const list = await this.#listOf(opened, target, id);
      if (list === undefined) throw new Svc3Error('Conflict', `upload ${id} is complete`);
      if (list.offset !== offset)
        throw new Svc3Error('Conflict', `Upload-Offset: upload ${id} is at ${list.offset}, not ${offset}`);
      const size = sizeOf(list);
      if (size !== undefined && offset + (length ?? 0) > size) throw tooLong(size);
      const longer = await appendParts(opened.client, partsOf(opened.path, id), {
        list,
        content: this.#fitting(content, offset, size),
        ...(this.#partBytes === undefined ? {} : { partBytes: this.#partBytes }),
      });
      if (!isWhole(longer.offset - offset)) throw refused('ended before it was whole; what came is kept');
      if (!isLast) return stateOf(id, longer);
      return { ...stateOf(id, longer), taken: await this.#complete(opened, target, id, longer) };
    });
  }

  /** What comes behind `offset`, up to the size that was announced or the largest that is taken. */
  #fitting(content: AsyncIterable<Buffer>, offset: number, size: number | undefined): AsyncGenerator<Buffer> {
    const most = this.#maxBytes;
    // Where a file was announced before the limit was lowered, the limit counts.
    if (size === undefined || size > most)
      return within(content, most - offset, () => fileTooLarge('body', most));
    return within(content, size - offset, () => tooLong(size));
  }

  cancel(target: UploadTarget, id: string): Promise<void> {
    return this.#inStore(target, async ({ client, path }) => {
      // Its parts are what the object is made of.
      if ((await this.#parts.targets.takenBy(target, id)) !== undefined)
        throw new Svc3Error('Conflict', `upload ${id} is complete`);
      await deleteParts(client, partsOf(path, id));
    });
  }

  async #inStore<T>(target: UploadTarget, work: (opened: Opened) => Promise<T>): Promise<T> {
    const { store, registries } = this.#parts;
    if (store.url === '')
      throw new Svc3Error('Conflict', 'this installation has no image store (chart value store.url)');
    const path = repositoryPathOf(store, target.kind, target.namespace, target.name);
    const client = await registries.open(target.namespace, path.registry);
    try {
      return await withStore(() => work({ client, path }));
    } finally {
      await client.close();
    }
  }

  /** The upload's list of parts; undefined when its object has taken it over. */
  async #listOf({ client, path }: Opened, target: UploadTarget, id: string): Promise<PartList | undefined> {
    try {
      return await readParts(client, partsOf(path, id));
    } catch (error) {
      if (!isSvc3Error(error, 'NotFound')) throw error;
      if ((await this.#parts.targets.takenBy(target, id)) !== undefined) return undefined;
      throw new Svc3Error('NotFound', `there is no upload ${id} to ${target.name}`, { cause: error });
    }
  }

  async #complete(opened: Opened, target: UploadTarget, id: string, list: PartList) {
    const { targets } = this.#parts;
    const { annotations, digest, offset } = list;
    const size = sizeOf(list);
    if (size !== undefined && size !== offset) throw refused(`${offset} of ${size} bytes have come`);
    if (offset === 0) throw refused('no byte has come');
    const { [facts.uid]: uid, [facts.description]: description } = annotations;
    const { data: architecture } = Architecture.safeParse(annotations[facts.architecture]);
    try {
      return await targets.handOver(target, { id, digest, uid, description, architecture });
    } catch (error) {
      // Nobody will ever take it then; else its client can say again that it is whole.
      if (isSvc3Error(error, 'AlreadyExists', 'NotFound', 'Invalid'))
        await deleteParts(opened.client, partsOf(opened.path, id)).catch(() => undefined);
      throw error;
    }
  }
}

function partsOf({ repository }: RepositoryPath, id: string): { repository: string; tag: string } {
  return { repository, tag: uploadTag(id) };
}

function sizeOf({ annotations }: PartList): number | undefined {
  const text = annotations[facts.size];
  return text === undefined ? undefined : Number(text);
}

function stateOf(id: string, list: PartList): UploadState {
  const size = sizeOf(list);
  return { id, offset: list.offset, isComplete: false, ...(size === undefined ? {} : { size }) };
}

/**
 * The same pieces, of which all fit: nobody said how many come. The one that does not, and what is behind it, is not taken.
 *
 * @param most - in bytes
 */
async function* within(
  content: AsyncIterable<Buffer>,
  most: number,
  refusal: () => Svc3Error,
): AsyncGenerator<Buffer> {
  // By hand: a loop would close the socket, and the client of it could not read why.
  const pieces = content[Symbol.asyncIterator]();
  let left = most;
  for (let next = await pieces.next(); next.done !== true; next = await pieces.next()) {
    left -= next.value.length;
    if (left < 0) throw refusal();
    yield next.value;
  }
}

function tooLong(size: number): Svc3Error {
  return refused(`with these bytes the file is larger than the ${size} that were announced`);
}

function refused(message: string): Svc3Error {
  return new Svc3Error('BadRequest', `body: ${message}`, {
    details: { causes: [{ field: 'body', message }] },
  });
}
