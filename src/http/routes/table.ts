import type { Route } from '../call/route.ts';
import { getClusterInfo } from './clusterinfo.ts';
import { openConsole, streamConsole, streamSerial, streamTunnel } from './console.ts';
import { downloadImage, downloadIso } from './downloads.ts';
import { generateImage, imageRoutes, listAllImages } from './images.ts';
import { isoRoutes } from './isos.ts';
import { allowGpuPassthrough, assignNode } from './nodeadministration.ts';
import { getNode, listNodes, tagNode, untagNode } from './nodes.ts';
import {
  addRegistryCredential,
  listRegistryCredentials,
  removeRegistryCredential,
} from './registrycredentials.ts';
import { getOidcClient } from './oidc.ts';
import { listRemoteImages, listRemoteIsos, pullImage, pullIso } from './remotes.ts';
import {
  createServiceAccount,
  createServiceAccountToken,
  deleteServiceAccount,
  listServiceAccounts,
} from './serviceaccounts.ts';
import {
  appendImageUpload,
  appendIsoUpload,
  cancelImageUpload,
  cancelIsoUpload,
  getImageUpload,
  getIsoUpload,
} from './resumable.ts';
import { uploadCertificate, uploadImage, uploadIso } from './uploads.ts';
import { commitVm, execVm, saveVm } from './vmactions.ts';
import { patchVm } from './vmchange.ts';
import { createVmConfig, deleteVmConfig, getVmConfig, listAllVmConfigs, listVmConfigs } from './vmconfigs.ts';
import { ejectVm, explainVm } from './vmdetails.ts';
import { getVmUsage } from './vmusage.ts';
import { createVmPool, deleteVmPool, getVmPool, listVmPools, patchVmPool, scaleVmPool } from './vmpools.ts';
import { deleteVm, deployVm, getVm, listAllVms, listVms } from './vms.ts';

/** Every route of `/api/v1`: the server, the OpenAPI document and the matrix of rights are made from this table. */
export const routes: readonly Route[] = [
  listVms,
  deployVm,
  getVm,
  patchVm,
  deleteVm,
  execVm,
  saveVm,
  commitVm,
  ejectVm,
  explainVm,
  getVmUsage,
  openConsole,
  streamConsole,
  streamSerial,
  streamTunnel,
  listAllVms,
  listVmConfigs,
  createVmConfig,
  getVmConfig,
  deleteVmConfig,
  listAllVmConfigs,
  listVmPools,
  createVmPool,
  getVmPool,
  patchVmPool,
  scaleVmPool,
  deleteVmPool,
  listNodes,
  getNode,
  tagNode,
  untagNode,
  assignNode,
  allowGpuPassthrough,
  imageRoutes.list,
  generateImage,
  imageRoutes.get,
  imageRoutes.delete,
  imageRoutes.copy,
  imageRoutes.describe,
  downloadImage,
  uploadImage,
  getImageUpload,
  appendImageUpload,
  cancelImageUpload,
  listAllImages,
  isoRoutes.list,
  isoRoutes.get,
  isoRoutes.delete,
  isoRoutes.copy,
  isoRoutes.describe,
  downloadIso,
  uploadIso,
  getIsoUpload,
  appendIsoUpload,
  cancelIsoUpload,
  listRemoteImages,
  pullImage,
  listRemoteIsos,
  pullIso,
  listRegistryCredentials,
  addRegistryCredential,
  removeRegistryCredential,
  listServiceAccounts,
  createServiceAccount,
  deleteServiceAccount,
  createServiceAccountToken,
  getClusterInfo,
  getOidcClient,
  uploadCertificate,
];
