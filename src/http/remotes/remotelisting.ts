import { isSvc3Error, messageOf } from '../../errors.ts';
import type { RegistryClient } from '../../registry/client.ts';
import { repositoryPattern, tagPattern } from '../../registry/reference.ts';
import type { RemoteImage } from '../call/services.ts';

/** A list is for people: what is beyond is cut off, and that is said. */
const most = { names: 10_000, repositories: 1_000, tags: 50, images: 2_000 } as const;
/** Calls to the registry at the same time. */
const callsAtOnce = 4;

/** What of a registry is listed: its name and a path in it, from `host[:port][/path]`. */
export interface RemoteRegistry {
  readonly host: string;
  /** Empty: all of it. */
  readonly path: string;
}

/** Lists one registry; what has come so far can be looked at while it goes on. */
export class RemoteListing {
  readonly #registry: RemoteRegistry;
  /** By repository, in the registry's order. */
  readonly #found: RemoteImage[][] = [];
  #images = 0;
  #denied = 0;
  #isCut = false;
  #isDone = false;
  #failure: string | undefined;

  constructor(registry: RemoteRegistry) {
    this.#registry = registry;
  }

  get images(): RemoteImage[] {
    return this.#found.flat();
  }

  get hasFailed(): boolean {
    return this.#failure !== undefined;
  }

  /** What is missing, as sentences; none where the list is whole. */
  get missing(): string[] {
    const what = `remote registry ${this.#registry.host}`;
    return [
      ...(this.#failure === undefined ? [] : [`${what} could not be listed: ${this.#failure}`]),
      ...(this.#isDone ? [] : [`${what} is still being listed; ask again for more`]),
      ...(this.#denied === 0 ? [] : [`${what} does not show ${this.#denied} of its repositories`]),
      ...(this.#isCut ? [`${what} holds more than is listed; name a path of it in remoteRegistries`] : []),
    ];
  }

  /** Resolves when all is listed that will be; never rejects. */
  async run(open: () => Promise<RegistryClient>, signal: AbortSignal): Promise<void> {
    let client: RegistryClient | undefined;
    try {
      client = await open();
      await this.#list(client, signal);
    } catch (error) {
      this.#failure = isSvc3Error(error)
        ? messageOf(error)
        : signal.aborted
          ? 'it did not answer in time'
          : 'it cannot be reached';
    } finally {
      this.#isDone = true;
      await client?.close();
    }
  }

  async #list(client: RegistryClient, signal: AbortSignal): Promise<void> {
    const { path } = this.#registry;
    const all = await client.repositories({ signal, limit: most.names });
    const wanted = all
      .filter((name) => repositoryPattern.test(name))
      .filter((name) => path === '' || name === path || name.startsWith(`${path}/`));
    this.#isCut = all.length === most.names || wanted.length > most.repositories;
    wanted.splice(most.repositories);
    let next = 0;
    const listNext = async (): Promise<void> => {
      for (let at = next++; at < wanted.length && !this.#cutWhenFull(); at = next++)
        this.#found[at] = await this.#tagsOf(client, wanted[at] ?? '', signal);
    };
    await Promise.all(Array.from({ length: callsAtOnce }, listNext));
  }

  /** Notes that the listing is cut where it has as many images as it may. Returns whether it has. */
  #cutWhenFull(): boolean {
    if (this.#images < most.images) return false;
    this.#isCut = true;
    return true;
  }

  async #tagsOf(client: RegistryClient, repository: string, signal: AbortSignal): Promise<RemoteImage[]> {
    try {
      const all = await client.tags(repository, { signal, limit: most.tags + 1 });
      if (all.length > most.tags) this.#isCut = true;
      const tags = all.slice(0, most.tags).filter((tag) => tagPattern.test(tag));
      this.#images += tags.length;
      return tags.map((tag) => ({ name: `${client.registry}/${repository}:${tag}`, tags }));
    } catch (error) {
      if (!isSvc3Error(error, 'Unauthorized', 'Forbidden', 'NotFound')) throw error;
      this.#denied += 1;
      return [];
    }
  }
}
