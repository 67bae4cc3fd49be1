import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/** Numbered records without pause, from start to stop: load under which a broker is killed. */
final class Flood {
    private final AtomicLong acked = new AtomicLong();
    private final AtomicReference<Exception> failure = new AtomicReference<>();
    private volatile boolean stopping;
    private Thread thread;

    void start(JsonNode command, ObjectNode answer) {
        acked.set(0);
        failure.set(null);
        stopping = false;
        thread = new Thread(() -> run(command));
        thread.start();
    }

    void stop(JsonNode command, ObjectNode answer) throws Exception {
        stopping = true;
        thread.join();
        if (failure.get() != null) {
            throw failure.get();
        }
        answer.put("acked", acked.get());
    }

    private void run(JsonNode command) {
        TopicPartition partition = Records.partition(command);
        try (KafkaProducer<byte[], byte[]> producer = Records.producer(command)) {
            for (long number = 0; !stopping && failure.get() == null; number++) {
                byte[] value = String.format("%0100d", number).getBytes(StandardCharsets.US_ASCII);
                producer.send(new ProducerRecord<>(partition.topic(), partition.partition(), null, value), this::done);
            }
        } catch (Exception error) {
            failure.compareAndSet(null, error);
        }
    }

    private void done(RecordMetadata metadata, Exception error) {
        if (error != null) {
            failure.compareAndSet(null, error);
        } else {
            acked.incrementAndGet();
        }
    }
}
