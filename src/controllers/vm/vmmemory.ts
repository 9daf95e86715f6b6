/** A part that remembers something of VMs, by their UID; all of it is lost with the process. */
export interface VmMemory {
  /** The VM is gone. */
  forget(vmUid: string): void;
}
