/* Open and use a TAP device with checksum offload and TCP segmentation offload (TSO). */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: struct ifreq */
#include "fedclient/datacenter/nic/packet/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fedclient/datacenter/nic/packet/vnet_header.h"

static struct ifreq request(const char *name) {
    struct ifreq r;
    memset(&r, 0, sizeof r);
    memcpy(r.ifr_name, name, strnlen(name, IFNAMSIZ - 1));
    return r;
}

static fed_status attach(const char *name, int fd, fed_error *err) {
    struct ifreq r = request(name);
    r.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    if (ioctl(fd, TUNSETIFF, &r) == 0) {
        return FED_OK;
    }
    switch (errno) {
    case EPERM:
        return fed_fail(err, FED_EAUTH,
                        "only root, or a program with CAP_NET_ADMIN, can make the device %s", name);
    case EBUSY:
        return fed_fail(
            err, FED_EBUSY,
            "the device %s is in use: end the other fednic, or choose another name for --tun",
            name);
    case EINVAL:
        return fed_fail(err, FED_EINVAL,
                        "%s is another kind of device than a TAP: choose another name for --tun",
                        name);
    default:
        return fed_fail(err, FED_EIO, "can't make the device %s: %s", name, strerror(errno));
    }
}

/* Let Linux pass incomplete checksums, super-segments, and a virtio header before each frame. */
static fed_status offload(const char *name, int fd, fed_error *err) {
    const unsigned long what = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    int header = FEDNIC_VNET;
    if (ioctl(fd, TUNSETVNETHDRSZ, &header) != 0 || ioctl(fd, TUNSETOFFLOAD, what) != 0) {
        return fed_fail(err, FED_EIO, "checksum offload can't be set on the device %s: %s", name,
                        strerror(errno));
    }
    return FED_OK;
}

/* Set a locally administered address, which differs from the line's. With equal addresses, both
 * interfaces would accept each frame. */
static bool set_address(int ioctls, const char *name, const uint8_t address[6]) {
    struct ifreq r = request(name);
    r.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    memcpy(r.ifr_hwaddr.sa_data, address, 6);
    r.ifr_hwaddr.sa_data[0] = (char)((address[0] | 2) ^ 4);
    return ioctl(ioctls, SIOCSIFHWADDR, &r) == 0;
}

static bool bring_up(int ioctls, const char *name, uint32_t mtu, fednic_tap *tap) {
    struct ifreq r = request(name);
    if (ioctl(ioctls, SIOCGIFMTU, &r) != 0) {
        return false;
    }
    if (tap->made || r.ifr_mtu > (int)mtu) {
        r.ifr_mtu = (int)mtu;
        if (ioctl(ioctls, SIOCSIFMTU, &r) != 0) {
            return false;
        }
    }
    tap->mtu = (uint32_t)r.ifr_mtu;
    r = request(name);
    if (ioctl(ioctls, SIOCGIFFLAGS, &r) != 0) {
        return false;
    }
    r.ifr_flags = (short)(r.ifr_flags | IFF_UP);
    return ioctl(ioctls, SIOCSIFFLAGS, &r) == 0;
}

static fed_status set_up(const char *name, uint32_t mtu, const uint8_t address[6], fednic_tap *tap,
                         fed_error *err) {
    const int ioctls = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool good = ioctls >= 0 && (!tap->made || set_address(ioctls, name, address)) &&
                bring_up(ioctls, name, mtu, tap) &&
                (!tap->made || ioctl(tap->fd, TUNSETPERSIST, 1) == 0);
    const int why = errno;
    if (ioctls >= 0) {
        close(ioctls);
    }
    return good ? FED_OK
                : fed_fail(err, FED_EIO, "can't set up the device %s: %s", name, strerror(why));
}

fed_status fednic_tap_open(const char *name, uint32_t mtu, const uint8_t address[6],
                           fednic_tap *tap, fed_error *err) {
    fednic_tap t = {.made = if_nametoindex(name) == 0};
    t.fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (t.fd < 0) {
        return errno == EACCES
                   ? fed_fail(err, FED_EAUTH, "only root may open /dev/net/tun: run fednic as root")
                   : fed_fail(err, FED_ENOTFOUND,
                              "can't open /dev/net/tun (%s): load the module with modprobe tun, or "
                              "give the container this device",
                              strerror(errno));
    }
    fed_status status = attach(name, t.fd, err);
    status = status == FED_OK ? offload(name, t.fd, err) : status;
    status = status == FED_OK ? set_up(name, mtu, address, &t, err) : status;
    if (status != FED_OK) {
        close(t.fd);
        return status;
    }
    t.index = if_nametoindex(name);
    *tap = t;
    return FED_OK;
}

void fednic_tap_close(fednic_tap *tap) {
    if (tap->made) {
        (void)ioctl(tap->fd, TUNSETPERSIST, 0);
    }
    close(tap->fd);
}

fednic_got fednic_tap_read(const fednic_tap *tap, uint8_t *slot, fednic_frame *frame) {
    for (;;) {
        const ssize_t got = read(tap->fd, slot, FEDNIC_VNET + FEDNIC_FRAME);
        if (got >= FEDNIC_VNET) {
            fednic_vnet_read(slot, &frame->offload);
            frame->data = slot + FEDNIC_VNET;
            frame->len = (size_t)got - FEDNIC_VNET;
            return FEDNIC_FRAME_GOT;
        }
        if (got < 0 && errno != EINTR) {
            return errno == EAGAIN ? FEDNIC_NONE : FEDNIC_GONE;
        }
    }
}

bool fednic_tap_write(const fednic_tap *tap, const fednic_frame *frame) {
    struct virtio_net_hdr header;
    const struct iovec parts[] = {{&header, sizeof header}, {(uint8_t *)frame->data, frame->len}};
    fednic_vnet_write(&frame->offload, &header);
    ssize_t done = 0;
    do {
        done = writev(tap->fd, parts, 2);
    } while (done < 0 && errno == EINTR);
    return done >= 0;
}
