import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.security.authorizer.AclEntry;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Decides by Kafka's own authorizer. The first line of output has the operations of each resource type, as JSON. Then each
 * line of input is a case: settings, rules and questions. Its line of output has a letter for each question, A or D. A
 * question without a name asks for any resource of the type.
 */
public final class AclDecisions {
    static {
        // Before the first logger is made.
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "error");
    }

    private static final ObjectMapper JSON = new ObjectMapper();

    private record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println(JSON.writeValueAsString(operations()));
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            System.out.println(decisions(JSON.readTree(line)));
        }
    }

    private static Map<String, TreeSet<String>> operations() {
        Map<String, TreeSet<String>> found = new TreeMap<>();
        for (ResourceType type : ResourceType.values()) {
            if (type != ResourceType.UNKNOWN && type != ResourceType.ANY) {
                TreeSet<String> names = new TreeSet<>();
                AclEntry.supportedOperations(type).forEach(operation -> names.add(operation.name()));
                found.put(type.name(), names);
            }
        }
        return found;
    }

    private static String decisions(JsonNode given) throws Exception {
        StringBuilder letters = new StringBuilder();
        try (Metrics metrics = new Metrics(); StandardAuthorizer authorizer = new StandardAuthorizer()) {
            // It counts its decisions, and fails without metrics.
            authorizer.withPluginMetrics(new PluginMetricsImpl(metrics, new LinkedHashMap<>()));
            authorizer.configure(Map.of(
                StandardAuthorizer.SUPER_USERS_CONFIG, given.get("super_users").asText(),
                StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, given.get("open").asText()));
            for (JsonNode acl : given.get("acls")) {
                authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.valueOf(acl.get(0).asText()),
                    acl.get(1).asText(),
                    PatternType.valueOf(acl.get(2).asText()),
                    acl.get(3).asText(),
                    acl.get(4).asText(),
                    AclOperation.valueOf(acl.get(5).asText()),
                    AclPermissionType.valueOf(acl.get(6).asText())));
            }
            authorizer.completeInitialLoad();
            for (JsonNode question : given.get("questions")) {
                letters.append(decide(authorizer, question) == AuthorizationResult.ALLOWED ? 'A' : 'D');
            }
        }
        return letters.toString();
    }

    private static AuthorizationResult decide(StandardAuthorizer authorizer, JsonNode question) throws Exception {
        Client client = new Client(
            SecurityUtils.parseKafkaPrincipal(question.get(0).asText()), InetAddress.getByName(question.get(1).asText()));
        AclOperation operation = AclOperation.valueOf(question.get(2).asText());
        ResourceType type = ResourceType.valueOf(question.get(3).asText());
        if (question.get(4).isNull()) {
            return authorizer.authorizeByResourceType(client, operation, type);
        }
        ResourcePattern resource = new ResourcePattern(type, question.get(4).asText(), PatternType.LITERAL);
        return authorizer.authorize(client, List.of(new Action(operation, resource, 1, true, true))).get(0);
    }
}
