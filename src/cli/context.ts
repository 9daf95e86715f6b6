import type { Environment } from './environment.ts';
import type { ConfigStore } from './config.ts';
import type { LocalCluster } from './localcluster.ts';
import type { Output } from './output.ts';
import type { Opener, ReachedApi } from './service/open.ts';
import type { Service } from './service/types.ts';
import type { Users } from './users.ts';

/** Everything a command may touch. What is costly is opened when it is first asked for. */
export interface Context {
  readonly environment: Environment;
  readonly out: Output;
  readonly config: ConfigStore;
  /** Flag > SVC3_DEFAULT_NAMESPACE > configuration > kubeconfig context > svc3-default. */
  namespace(): Promise<string>;
  service(): Promise<Service>;
  /** Users and tokens, which only the Kubernetes API knows. */
  users(): Promise<Users>;
  /** The kubeconfig that is used, and the context in it, as a login keeps them. */
  account: Opener['account'];
  localCluster(): Promise<LocalCluster>;
  /** The file of the certificate authority that the HTTP API is known by; undefined where those of this machine are enough. */
  authority: Opener['authority'];
  /** The HTTP API at an address, or at the configured one, after it has answered. */
  reachApi(url: string | undefined, caFile: string | undefined): Promise<ReachedApi>;
  openIssuer: Opener['openIssuer'];
  readonly signal: AbortSignal;
  /** Global options of this command line that a child of the same program needs. */
  readonly globalArguments: readonly string[];
  /** What a Ctrl-C from now on leaves behind, as a sentence for people; undefined: nothing. */
  ifInterrupted(stays: string | undefined): void;
  /** What was refused while the command goes on to something else: it is said also where a Ctrl-C ends that. */
  noteFailure(message: string): void;
  /** Exit code of a run that ended well, where it is another program's. */
  exitWith(code: number): void;
}
