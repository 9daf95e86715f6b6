/** The `help` texts of the 2.4.x API; `domain` is the address the client used. */

/** How a VM of a configuration is deployed. */
export function deployHelp(domain: string, name = '<SVC_VM_NAME>', node?: string): Record<string, unknown> {
  return {
    deploy_virtual_machine: `To deploy a VM, make sure you have a configuration created and use the endpoint ${domain}/resources/vm/deploy`,
    required_request_data_for_deploy: {
      svc_vm_name: name,
      ...(node === undefined ? {} : { svc_node_name: node }),
    },
  };
}

/** How a configuration is made. */
export function createHelp(domain: string): Record<string, unknown> {
  return {
    create_virtual_machine_configuration: `To create a VM configuration, please use the endpoint ${domain}/resources/vm/create`,
    required_request_data_for_create: {
      svc_vm_name: '<SVC_VM_NAME>',
      svc_base_image: '<SVC_BASE_IMAGE>',
      // Clients look for the names of 2.4.x's own texts, which its row never took.
      svc_base_img: '<SVC_BASE_IMAGE>',
      svc_image: '<SVC_VM_NAME>',
    },
  };
}

/** How nodes are listed. */
export function listNodesHelp(domain: string): Record<string, unknown> {
  return { list_svc_nodes: `To list svc nodes send a rest a request to ${domain}/resources/node/list` };
}

const verbs = {
  start_virtual_machine: 'start',
  stop_virtual_machine: 'stop',
  resume_virtual_machine: 'resume',
  suspend_virtual_machine: 'suspend',
};

/** How the power state of a VM is changed. */
export function execHelp(domain: string): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(verbs).map(([key, verb]) => [
      key,
      `To ${verb} a VM send rest request to ${domain}/resources/vm/exec/${verb}`,
    ]),
  );
}

/** How the changes of a VM are discarded. */
export function revertHelp(domain: string): Record<string, unknown> {
  return {
    revert_virtual_machine: `To revert a VM send rest request to ${domain}/resources/vm/exec/revert`,
    save_virtual_machine_state: `VM states no longer exist; to save the disk of an already deployed VM as an image send rest request to ${domain}/resources/image/save`,
  };
}

/** What comes after a look at the nodes. */
export function nodesHelp(domain: string): Record<string, unknown> {
  return {
    check_svc_node_status: `To check the status of a svc node look for it in ${domain}/resources/node/list`,
    ...createHelp(domain),
    ...deployHelp(domain, '<SVC_VM_NAME>', '<SVC_NODE_NAME>'),
  };
}
