import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What a client of a secured broker does; `options` are its security settings. */
final class Secured {
    private static final String ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls";
    private static final String TOKEN_URL = "sasl.oauthbearer.token.endpoint.url";

    private Secured() {}

    static void connect(JsonNode command, ObjectNode answer) throws Exception {
        try (Admin admin = Admin.create(settings(command))) {
            answer.put("cluster", admin.describeCluster().clusterId().get());
        }
    }

    /** Writes a record, then one in a transaction and one in a transaction that is aborted; a group reads them. */
    static void exchange(JsonNode command, ObjectNode answer) throws Exception {
        String topic = command.get("topic").asText();
        try (KafkaProducer<byte[], byte[]> producer = producer(settings(command))) {
            producer.send(record(topic, "1")).get();
        }
        Map<String, Object> transactional = settings(command);
        transactional.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, "of-" + topic);
        try (KafkaProducer<byte[], byte[]> producer = producer(transactional)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(record(topic, "2")).get();
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(record(topic, "aborted")).get();
            producer.abortTransaction();
        }
        ArrayNode values = answer.putArray("values");
        long deadline = System.nanoTime() + Duration.ofMillis(Interop.TIMEOUT_MS).toNanos();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command, topic)) {
            consumer.subscribe(List.of(topic));
            while (values.size() < 2) {
                for (ConsumerRecord<byte[], byte[]> read : consumer.poll(Duration.ofMillis(200))) {
                    values.add(new String(read.value(), StandardCharsets.UTF_8));
                }
                if (System.nanoTime() > deadline) {
                    throw new TimeoutException("only " + values + " came");
                }
            }
            consumer.commitSync();
        }
    }

    static void createToken(JsonNode command, ObjectNode answer) throws Exception {
        try (Admin admin = Admin.create(settings(command))) {
            DelegationToken token = admin.createDelegationToken().delegationToken().get();
            answer.put("id", token.tokenInfo().tokenId()).put("owner", token.tokenInfo().owner().toString());
            answer.put("hmac", token.hmacAsBase64String());
        }
    }

    static void expireToken(JsonNode command, ObjectNode answer) throws Exception {
        byte[] hmac = Base64.getDecoder().decode(command.get("hmac").asText());
        ExpireDelegationTokenOptions now = new ExpireDelegationTokenOptions().expiryTimePeriodMs(-1);
        try (Admin admin = Admin.create(settings(command))) {
            answer.put("expires", admin.expireDelegationToken(hmac, now).expiryTimestamp().get());
        }
    }

    private static Map<String, Object> settings(JsonNode command) {
        Map<String, Object> settings = new HashMap<>(Interop.strings(command.get("options")));
        settings.put(CommonClientConfigs.BOOTSTRAP_SERVERS_CONFIG, command.get("bootstrap").asText());
        if (settings.get(TOKEN_URL) instanceof String url) {
            System.setProperty(ALLOWED_URLS, url);
        }
        return settings;
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, String value) {
        return new ProducerRecord<>(topic, value.getBytes(StandardCharsets.UTF_8));
    }

    private static KafkaProducer<byte[], byte[]> producer(Map<String, Object> settings) {
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode command, String group) {
        Map<String, Object> settings = settings(command);
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, group);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
