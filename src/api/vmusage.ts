import { z } from 'zod';

const bytes = z.int().min(0);
const count = z.int().min(0);
const seconds = z.number().min(0);

/** Disks that are told one by one, and `others` for those beyond them (src/runner/metrics/disks.ts). */
const mostDisks = 6;

/**
 * What a VM uses, by its runner: `GET /v1/usage` there, and `VMUsage` of `/api/v1`. Counters only grow while the guest runs, so that two
 * replies make a rate: the difference of a counter by that of `uptimeSeconds`. What cannot be found out is left out.
 */
export const VmUsage = z.object({
  timestamp: z
    .string()
    .max(32)
    .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    .describe("When the figures were taken, by the node's clock."),
  uptimeSeconds: seconds.describe(
    "Since the guest's QEMU was started, by a clock that is never set. Less than before: it was started again, and counters have begun anew.",
  ),
  cpu: z.object({
    cpus: z.int().min(1).describe('Virtual CPUs.'),
    seconds: seconds.optional().describe('Counter: time of all virtual CPUs on a processor.'),
    waitSeconds: seconds
      .optional()
      .describe('Counter: time that they were ready to run and waited for a processor of the node.'),
  }),
  memory: z.object({
    totalBytes: bytes.describe('What the guest has.'),
    residentBytes: bytes
      .optional()
      .describe("What the guest's QEMU holds of the node's memory, its own included."),
    availableBytes: bytes
      .optional()
      .describe(
        'What programs of the guest can still have, as its balloon driver says every 10 s; only with chart value vmMetrics.enabled.',
      ),
    usedBytes: bytes.optional().describe('What is not available; as availableBytes.'),
  }),
  disks: z
    .array(
      z.object({
        name: z.string().max(64).describe('disk, data-<name>, or others for those beyond the fourth.'),
        readBytes: bytes.describe('Counter.'),
        writtenBytes: bytes.describe('Counter.'),
        reads: count.describe('Counter: reads that have ended.'),
        writes: count.describe('Counter: writes that have ended.'),
      }),
    )
    .max(mostDisks),
  network: z
    .object({ receivedBytes: bytes.describe('Counter.'), sentBytes: bytes.describe('Counter.') })
    .optional()
    .describe(
      "Of the VM's pod since it was made: the guest's traffic, and the runner's, which sends the disk when the VM is saved.",
    ),
});
export type VmUsage = z.infer<typeof VmUsage>;
