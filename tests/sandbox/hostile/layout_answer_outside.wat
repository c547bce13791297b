;; expect: 1.15
;; role: sampler
;; layout: answer=131068 answer_capacity=64

