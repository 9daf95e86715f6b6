import type { Pod } from '../../../api/core.ts';
import { EffectiveSettings } from '../../../api/vm.ts';
import { effectiveAnnotation } from '../names.ts';

/** The settings that the pod was made with; undefined where its annotation cannot be read. Whoever may write pods may have written it. */
export function annotatedSettings(pod: Pod): EffectiveSettings | undefined {
  try {
    const value: unknown = JSON.parse(pod.metadata.annotations?.[effectiveAnnotation] ?? '');
    return EffectiveSettings.safeParse(value).data;
  } catch {
    return undefined;
  }
}
