import * as z from 'zod';
import { imageName } from './names.ts';

/** Any text of a request of 2.4.x. */
export const text = z.string().max(512);

/** What create and deploy have in common. */
export const settings = {
  vnc_console: z.boolean().optional(),
  gpu_passthrough: z.boolean().optional(),
  system_serial: text.optional(),
  tag: text.optional(),
  tag_required: z.boolean().optional(),
  scheduler: z.enum(['default', 'most-allocated', '']).optional(),
  iso_image: text.optional(),
  attached_disk: text.optional(),
  io_boost: z.boolean().optional(),
  use_saved_state: z.boolean().optional(),
} as const;

/** Names of `/api/v1` as 2.4.x clients write them. */
export const settingFields = {
  vncConsole: 'vnc_console',
  gpuPassthrough: 'gpu_passthrough',
  systemSerial: 'system_serial',
  tagRequired: 'tag_required',
  iso: 'iso_image',
} as const;

/** How 2.4.x clients write that there is none. */
const noIso: ReadonlySet<string> = new Set(['', 'None']);

type Settings = z.output<z.ZodObject<typeof settings>>;

/** The settings in the words of `/api/v1`; what has no effect any more is warned of. */
export function settingsOf(body: Settings, warn: (text: string) => void): Record<string, unknown> {
  if (body.attached_disk !== undefined) warn('attached_disk has no effect: attached disks no longer exist');
  if (body.io_boost === true) warn('io_boost has no effect on this platform');
  if (body.use_saved_state === true) warn('use_saved_state has no effect: VM states no longer exist');
  return {
    vncConsole: body.vnc_console,
    gpuPassthrough: body.gpu_passthrough,
    systemSerial: body.system_serial,
    tag: body.tag,
    tagRequired: body.tag_required,
    scheduler: body.scheduler,
    iso:
      body.iso_image === undefined || noIso.has(body.iso_image)
        ? undefined
        : imageName(body.iso_image, 'iso_image'),
  };
}
