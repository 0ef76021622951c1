/* The eBPF programs that drop or forward frames in the kernel, and their links to interfaces. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: syscall */
#include "fedclient/datacenter/nic/packet/kernel_path.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fedclient/datacenter/nic/packet/packet_nic.h"

/* Linux 6.6's BPF_TCX_INGRESS, BPF_TCX_EGRESS and TCX_NEXT, which older headers lack. */
enum { AT_INGRESS = 46, AT_EGRESS = 47, NEXT = -1 };

enum { PROGRAM = 64, NONE = -1, HEAD = 24, SYN = 2, TO_LEAVE = 30000, TO_PASS };

/* An eBPF program under construction. Jumps to TO_LEAVE and TO_PASS get their offsets in
 * resolve. */
typedef struct program {
    struct bpf_insn code[PROGRAM];
    uint32_t len;
} program;

static void add(program *p, int code, uint8_t to, uint8_t from, int16_t offset, int32_t value) {
    p->code[p->len++] = (struct bpf_insn){.code = (uint8_t)code,
                                          .dst_reg = (unsigned)to & 0xfU,
                                          .src_reg = (unsigned)from & 0xfU,
                                          .off = offset,
                                          .imm = value};
}

static void move(program *p, uint8_t to, int32_t value) {
    add(p, BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value);
}

static void copy(program *p, uint8_t to, uint8_t from) {
    add(p, BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}

static void call(program *p, int32_t helper) {
    add(p, BPF_JMP | BPF_CALL, 0, 0, 0, helper);
}

static void leave(program *p, int32_t value) {
    move(p, BPF_REG_0, value);
    add(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void load_bytes(program *p, int16_t stack, int32_t count) {
    copy(p, BPF_REG_1, BPF_REG_6);
    copy(p, BPF_REG_3, BPF_REG_10);
    add(p, BPF_ALU64 | BPF_ADD, BPF_REG_3, 0, 0, stack);
    move(p, BPF_REG_4, count);
    call(p, BPF_FUNC_skb_load_bytes);
    add(p, BPF_JMP | BPF_JNE | BPF_K, BPF_REG_0, 0, TO_PASS, 0); /* the frame is too short */
}

static void read_byte(program *p, uint8_t to, int16_t stack) {
    add(p, BPF_LDX | BPF_MEM | BPF_B, to, BPF_REG_10, stack, 0);
}

static void read_u16(program *p, uint8_t to, int16_t stack) {
    add(p, BPF_LDX | BPF_MEM | BPF_H, to, BPF_REG_10, stack, 0);
    add(p, BPF_ALU | BPF_END | BPF_TO_BE, to, 0, 0, 16);
}

/* Resolve jumps: TO_LEAVE jumps to the exit that is added next, TO_PASS to the code after that
 * exit. */
static void resolve(program *p) {
    for (uint32_t k = 0; k < p->len; k++) {
        struct bpf_insn *i = &p->code[k];
        if (i->off == TO_LEAVE || i->off == TO_PASS) {
            i->off = (int16_t)(p->len - k - 1 + (i->off == TO_PASS ? 2 : 0));
        }
    }
}

/* Exit with this value if the frame is for the NIC: its DSCP is one of the NIC's two marks, or its
 * TCP SYN flag is set. */
static void leave_if_nics(program *p, int32_t value) {
    copy(p, BPF_REG_6, BPF_REG_1); /* R6 = the frame's context */
    move(p, BPF_REG_2, 0);
    load_bytes(p, -HEAD, HEAD);
    read_u16(p, BPF_REG_1, 12 - HEAD); /* EtherType */
    /* IPv4: R2 = ToS, R3 = protocol, R7 = offset of TCP's flags */
    read_byte(p, BPF_REG_2, 15 - HEAD);
    read_byte(p, BPF_REG_3, 23 - HEAD);
    move(p, BPF_REG_7, 47);
    add(p, BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_1, 0, 6, ETH_P_IP);
    add(p, BPF_JMP | BPF_JNE | BPF_K, BPF_REG_1, 0, TO_PASS, ETH_P_IPV6);
    read_u16(p, BPF_REG_2, 14 - HEAD);
    add(p, BPF_ALU64 | BPF_RSH | BPF_K, BPF_REG_2, 0, 0, 4);
    read_byte(p, BPF_REG_3, 20 - HEAD);
    move(p, BPF_REG_7, 67);
    add(p, BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_2, 0, 0, FEDNIC_TOS);
    add(p, BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_2, 0, TO_LEAVE, FEDNIC_MARKED);
    add(p, BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_2, 0, TO_LEAVE, FEDNIC_COMPRESSED);
    add(p, BPF_JMP | BPF_JNE | BPF_K, BPF_REG_3, 0, TO_PASS, IPPROTO_TCP);
    copy(p, BPF_REG_2, BPF_REG_7);
    load_bytes(p, -HEAD, 1);
    read_byte(p, BPF_REG_1, -HEAD);
    add(p, BPF_JMP | BPF_JSET | BPF_K, BPF_REG_1, 0, TO_LEAVE, SYN);
    add(p, BPF_JMP | BPF_JA, 0, 0, TO_PASS, 0);
    resolve(p);
    leave(p, value);
}

static void redirect(program *p, uint32_t to, int32_t flags) {
    move(p, BPF_REG_1, (int32_t)to);
    move(p, BPF_REG_2, flags);
    call(p, BPF_FUNC_redirect);
    add(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static int load(const program *p) {
    union bpf_attr a;
    memset(&a, 0, sizeof a);
    a.prog_type = BPF_PROG_TYPE_SCHED_CLS;
    a.insns = (uint64_t)(uintptr_t)p->code;
    a.insn_cnt = p->len;
    a.license = (uint64_t)(uintptr_t) "Apache-2.0";
    return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof a);
}

static int attach(const program *p, uint32_t interface, uint32_t direction) {
    union bpf_attr a;
    const int fd = load(p);
    if (fd < 0) {
        return NONE;
    }
    memset(&a, 0, sizeof a);
    a.link_create.prog_fd = (uint32_t)fd;
    a.link_create.target_ifindex = interface;
    a.link_create.attach_type = direction;
    const int link = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &a, sizeof a);
    const int why = errno;
    close(fd); /* the link holds the program */
    errno = why;
    return link;
}

static int attach_line(uint32_t tap, uint32_t line, bool bypass) {
    program p = {.len = 0};
    if (bypass) {
        leave_if_nics(&p, TC_ACT_SHOT);
        redirect(&p, tap, BPF_F_INGRESS);
    } else {
        leave(&p, TC_ACT_SHOT);
    }
    return attach(&p, line, AT_INGRESS);
}

fed_status fednic_kernel_path_open(uint32_t tap, uint32_t line, bool bypass,
                                   fednic_kernel_path *path, fed_error *err) {
    fednic_kernel_path made = {{attach_line(tap, line, bypass), NONE}};
    if (made.links[0] >= 0 && bypass) {
        program p = {.len = 0};
        leave_if_nics(&p, NEXT);
        redirect(&p, line, 0);
        made.links[1] = attach(&p, tap, AT_EGRESS);
    }
    if (made.links[0] >= 0 && (!bypass || made.links[1] >= 0)) {
        *path = made;
        return FED_OK;
    }
    const int why = errno;
    fednic_kernel_path_close(&made);
    return why == EPERM
               ? fed_fail(
                     err, FED_EAUTH,
                     "only root may attach eBPF programs to the interfaces: run fednic as root")
               : fed_fail(err, FED_EVERSION,
                          "this kernel can't attach eBPF programs to an interface, which Linux 6.6 "
                          "and later can (%s)",
                          strerror(why));
}

void fednic_kernel_path_close(fednic_kernel_path *path) {
    for (int k = 0; k < 2; k++) {
        if (path->links[k] >= 0) {
            close(path->links[k]);
        }
        path->links[k] = NONE;
    }
}
