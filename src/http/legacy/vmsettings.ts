import * as z from 'zod';
import type { Architecture } from '../../api/vmconfig.ts';
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

/** A text of a client; undefined where there is none, as 2.4.x writes that: clients send back what they have read. */
function given(value: string | undefined, none: 'None' | 'N/A'): string | undefined {
  return value === '' || value === none ? undefined : value;
}

type Settings = z.output<z.ZodObject<typeof settings>> & {
  /** Of a deploy: that it gets the disk which it names, or else its configuration. */
  readonly attach_disk?: boolean | undefined;
};

/** The settings in the words of `/api/v1`; what has no effect any more is warned of. */
export function settingsOf(body: Settings, warn: (text: string) => void): Record<string, unknown> {
  const iso = given(body.iso_image, 'None');
  const disk = given(body.attached_disk, 'None');
  if (disk !== undefined) warn('attached_disk has no effect: attached disks no longer exist');
  else if (body.attach_disk === true) warn('attach_disk has no effect: attached disks no longer exist');
  if (body.io_boost === true) warn('io_boost has no effect on this platform');
  if (body.use_saved_state === true) warn('use_saved_state has no effect: VM states no longer exist');
  return {
    vncConsole: body.vnc_console,
    gpuPassthrough: body.gpu_passthrough,
    systemSerial: given(body.system_serial, 'N/A'),
    tag: body.tag,
    tagRequired: body.tag_required,
    scheduler: body.scheduler,
    iso: iso === undefined ? undefined : imageName(iso, 'iso_image'),
  };
}

/** What a configuration has where it says nothing, but for its size. */
const unsaid: Readonly<Record<string, unknown>> = {
  vncConsole: true,
  gpuPassthrough: false,
  tagRequired: false,
  scheduler: 'default',
};

/**
 * The settings of a configuration, which says nothing with what it has anyway: lists show that, and clients send it back. Said, a console that the
 * GPU turns off would be warned of at each of its VMs.
 *
 * @param architecture - of its image, where that is known: on ARM a VM has a GPU whatever is said (spec: GPU passthrough rule 1)
 */
export function configSettingsOf(
  body: Settings,
  architecture: Architecture | undefined,
  warn: (text: string) => void,
): Record<string, unknown> {
  const { gpuPassthrough, ...others } = settingsOf(body, warn);
  const said = architecture === 'arm64' ? others : { ...others, gpuPassthrough };
  return Object.fromEntries(Object.entries(said).filter(([name, value]) => value !== unsaid[name]));
}
