const prefix = 'ports: ';

/** A warning of `status.warnings` about one of the VM's port mappings. */
export function portWarning(text: string): string {
  return `${prefix}${text}`;
}

/** Whether a warning of `status.warnings` is about a port mapping: deploys answer these as `portWarnings`. */
export function isPortWarning(warning: string): boolean {
  return warning.startsWith(prefix);
}
