import { qcow2HeaderBytes, qcow2Magic } from '../../qcow2.ts';

/**
 * An empty qcow2 disk, made by hand since it is all header: cluster 0 the header, 1 the refcount table, 2 a refcount block,
 * then the L1 table. Format: docs/interop/qcow2.txt of QEMU, version 3.
 */
export function blankQcow2(virtualSize: number): Buffer {
  const clusterBits = 16;
  const cluster = 2 ** clusterBits;
  const size = Math.ceil(virtualSize / 512) * 512;
  const l1Entries = Math.ceil(size / (cluster * (cluster / 8)));
  const l1Clusters = Math.ceil((l1Entries * 8) / cluster);
  const clusters = 3 + l1Clusters;
  const disk = Buffer.alloc(clusters * cluster);
  disk.writeUInt32BE(qcow2Magic, 0);
  disk.writeUInt32BE(3, 4);
  disk.writeUInt32BE(clusterBits, 20);
  disk.writeBigUInt64BE(BigInt(size), 24);
  disk.writeUInt32BE(l1Entries, 36);
  disk.writeBigUInt64BE(BigInt(3 * cluster), 40);
  disk.writeBigUInt64BE(BigInt(cluster), 48);
  disk.writeUInt32BE(1, 56);
  // Refcounts of 2^4 bits.
  disk.writeUInt32BE(4, 96);
  disk.writeUInt32BE(qcow2HeaderBytes.version3, 100);
  disk.writeBigUInt64BE(BigInt(2 * cluster), cluster);
  for (let index = 0; index < clusters; index += 1) disk.writeUInt16BE(1, 2 * cluster + index * 2);
  return disk;
}
