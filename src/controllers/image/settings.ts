import { z } from 'zod';
import { limits, runnerPort } from '../../api/meta.ts';
import { parseQuantity } from '../../api/quantity.ts';
import { pullsWithText } from '../pullswith.ts';

const fileSize = '256Gi';
/** The largest file that a worker takes unless the chart says another, in bytes. */
export const defaultFileBytes = parseQuantity(fileSize);
/** Room of a worker for the disk while it looks at it; also the largest file that is taken, so that the api refuses a larger one before it comes. */
export const scratchSize = z.string().default(fileSize);

/** Settings of the operator for Images and ISOs, as the chart writes them; extends `CommonSettings`. */
export const imageEnvironment = {
  SVC3_STORE_URL: z.string().default(''),
  SVC3_STORE_PREFIX: z.string().default('svc3'),
  SVC3_WORKER_IMAGE: z.string().default(''),
  SVC3_WORKER_IMAGE_PULL_POLICY: z.enum(['Always', 'IfNotPresent', 'Never']).default('IfNotPresent'),
  /** Also of worker pods: both images usually lie in one registry. */
  SVC3_RUNNER_PULL_SECRET: z.string().optional(),
  SVC3_WORKER_SCRATCH_SIZE: scratchSize,
  /** Hours after which an upload that nobody goes on with is given up. */
  SVC3_UPLOAD_EXPIRY_HOURS: z.coerce.number().positive().default(24),
  /** Port at which a worker tells how far it is. */
  SVC3_WORKER_PORT: z.coerce.number().int().min(0).max(65_535).default(8080),
};
const schema = z.object(imageEnvironment);

const hourMs = 3_600_000;
export const defaultUploadExpiryMs = 24 * hourMs;

/** Where Images and ISOs lie. */
export interface StoreSettings {
  /** Registry with optional scheme and path; empty: there is no store. */
  readonly url: string;
  readonly prefix: string;
}

export interface ImageSettings {
  readonly store: StoreSettings;
  readonly workerImage: string;
  readonly workerImagePullPolicy: 'Always' | 'IfNotPresent' | 'Never';
  readonly workerPullSecret: string | undefined;
  readonly workerPort: number;
  readonly scratchBytes: number;
  /** An upload without progress for so long is given up. */
  readonly uploadExpiryMs: number;
  readonly maxVirtualBytes: number;
  /** Of a runner's control endpoint. */
  readonly runnerPort: number;
}

export function imageSettingsOf(environment: z.infer<typeof schema>): ImageSettings {
  return {
    store: { url: environment.SVC3_STORE_URL, prefix: environment.SVC3_STORE_PREFIX },
    workerImage: environment.SVC3_WORKER_IMAGE,
    workerImagePullPolicy: environment.SVC3_WORKER_IMAGE_PULL_POLICY,
    workerPullSecret: environment.SVC3_RUNNER_PULL_SECRET,
    workerPort: environment.SVC3_WORKER_PORT,
    scratchBytes: parseQuantity(environment.SVC3_WORKER_SCRATCH_SIZE, 'SVC3_WORKER_SCRATCH_SIZE'),
    uploadExpiryMs: environment.SVC3_UPLOAD_EXPIRY_HOURS * hourMs,
    maxVirtualBytes: parseQuantity(limits.diskSize.max),
    runnerPort,
  };
}

/** What the image of a worker pod that is made now is pulled with, as the pod's annotation says it. */
export function workerPullsWith(
  settings: Pick<ImageSettings, 'workerImage' | 'workerImagePullPolicy' | 'workerPullSecret'>,
): string {
  const { workerImage: image, workerImagePullPolicy: policy, workerPullSecret: secret } = settings;
  return pullsWithText({ image, policy, secret });
}
