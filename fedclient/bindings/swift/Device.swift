// A device in Swift, on the C headers as modules. Not compiled yet: docs/java.md#swift says what was tested.
// SPDX-License-Identifier: Apache-2.0
import FedClient
import FedCodecs
import FedCommon

/// A failed call of the library. The description is the library's sentence.
struct FedError: Error, CustomStringConvertible {
    let status: fed_status
    let description: String

    init(_ error: fed_error) {
        status = error.status
        description = withUnsafePointer(to: error) { String(cString: fed_error_text($0)) }
    }
}

/// Call a function of the library; throw its error if it fails.
func fed(_ call: (UnsafeMutablePointer<fed_error>) -> fed_status) throws {
    var error = fed_error()
    if call(&error) != FED_OK {
        throw FedError(error)
    }
}

/// A device that takes part in federated learning. Only one thread may use it, but any thread may
/// call stop().
final class Device {
    /// Changes the values in place. Returns the number of samples, and the mean loss.
    typealias Trainer = (UnsafeMutableBufferPointer<Float>, fedclient_round) throws -> (UInt32, Float)

    private let train: Trainer
    private var app: OpaquePointer?
    private var failure: Error?

    /// slots: for how many tasks at once the device keeps a model and a residual, 1 to 8.
    init(server: String, ca: String, state: String, slots: UInt32 = 1, train: @escaping Trainer) throws {
        self.train = train
        var options = fedclient_options()
        options.hold_ms = 25000
        options.slots = slots
        options.train = { user, round, error in
            Unmanaged<Device>.fromOpaque(user!).takeUnretainedValue().onTrain(round!, error)
        }
        options.user = Unmanaged.passUnretained(self).toOpaque()
        try server.withCString { text in // the library copies the text
            options.server = text
            try fed { fedclient_app_open(&options, ca, state, &app, $0) }
        }
    }

    deinit {
        fedclient_app_close(app)
    }

    func enrol(token: String) throws {
        try fed { fedclient_token_give(fedclient_app_client(app), token, $0) }
    }

    func stop() {
        fedclient_app_stop(app)
    }

    /// Take part until the task is finished, or with several slots all tasks.
    func run() throws {
        do {
            try fed { fedclient_app_run(app, nil, $0) }
        } catch let error {
            throw failure ?? error
        }
    }

    /// No Swift error may pass through C, so it is kept in `failure` and thrown by run().
    private func onTrain(_ round: UnsafeMutablePointer<fedclient_round>, _ error: UnsafeMutablePointer<fed_error>?) -> fed_status {
        let count = round.pointee.arch.pointee.layout.size
        let values = UnsafeMutableBufferPointer(start: round.pointee.values, count: count)
        do {
            (round.pointee.samples, round.pointee.loss) = try train(values, round.pointee)
            return FED_OK
        } catch let thrown {
            failure = thrown
            return fed_fail_with(error, FED_ECANCELED, "the trainer threw an error")
        }
    }
}

/// Compress an array. The residual is added to the array, and then holds what the message leaves
/// out.
func encode(_ spec: String, _ x: [Float], residual: inout [Float]) throws -> [UInt8] {
    var out = fed_writer()
    fed_writer_growing(&out)
    defer { fed_writer_free(&out) }
    try fed { fedcodec_array_encode(spec, x, x.count, &residual, &out, $0) }
    return Array(UnsafeBufferPointer(start: out.data, count: out.len))
}
